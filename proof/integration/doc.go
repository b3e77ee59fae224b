// Package integration has the tests that need real servers. They run the suites of registers, buckets and
// leases on versitygw, MinIO and DynamoDB Local, directly and through a proxy that makes requests fail.
// In other tests, real processes compete for leases, while the test stops or kills some of them.
//
// The tests also check how each server answers conditional requests. So they fail if a new version of a
// server changes this behavior.
//
// With HOLDFAST_TORTURE=1 in the environment, the tests run longer. Package servers starts the servers.
package integration
