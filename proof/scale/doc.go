// Package scale counts what ten thousand programs cost that share one store: requests, refused requests,
// money, and the time until a lock has its next holder. All programs run in one process, in virtual time.
//
//	go test ./proof/scale -run TestTableOfCosts -table
//
// # The servers
//
// A simulated server has partitions. Each partition answers a number of reads and of writes in a second, and
// refuses further ones, as Amazon's and Google's servers do. Its limits are those that the providers
// document, and its errors are those that the drivers make of the refusals. A database server refuses
// nothing: its requests wait for each other.
//
// Everything above the server is the code of a release: the engine of remote registers with its retries,
// and the leases.
//
// # What is checked
//
// TestNoLeaseIsLost runs each case with fewer programs and with limits that are lower by the same factor. No
// holder may lose its lease because a server refuses the requests of others, and only a bounded part of the
// requests may be refused. In TestWithoutBackOff, the control, the programs read without a growing pause.
package scale
