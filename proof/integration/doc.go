// Package integration holds the tests that need real servers: the suites of registers,
// buckets and leases on versitygw, MinIO and DynamoDB Local, plain and through a proxy
// that makes requests fail, and leases that real processes fight over while they are
// killed and stopped.
//
// It also pins down what each server does with conditional requests, so that a new
// version of a server that does something else is noticed.
//
// With HOLDFAST_TORTURE=1 in the environment the long versions run. The servers
// come from package servers.
package integration
