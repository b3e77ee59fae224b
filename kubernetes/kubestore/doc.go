// Package kubestore stores registers as Lease objects of Kubernetes.
//
//	s, err := kubestore.Open(ctx, "k8s://jobs/locks", nil)
//
// # Objects
//
// A register with the key K, below the prefix P, is one object of coordination.k8s.io/v1 in one namespace:
//
//	name                             holdfast-HASH; HASH is the SHA-256 of P/K as 64 hexadecimal digits
//	annotation holdfast-go.dev/key   P/K
//	annotation holdfast-go.dev/record  the record of the register, as text
//	label holdfast-go.dev/prefix     the first 40 digits of the SHA-256 of P; a listing selects it
//	label holdfast-go.dev/deleted    true, if the record is a tombstone
//
// The specification of the object stays empty. So programs that elect leaders by Lease objects never mistake
// a register for theirs, and need other names.
//
// # Requests
//
// The store sends its HTTP requests itself, without a client library. A read is one GET without a resourceVersion: the API server reads it from
// etcd, and not from its cache. A write is one POST or one PUT. The PUT names the resourceVersion and the uid
// of the object. The resourceVersion alone would not be enough: the API server creates a Lease object that
// does not exist, whatever the resourceVersion is. The API server refuses a PUT with another uid. A
// resourceVersion is a revision of etcd, which etcd never uses twice.
//
// A refusal does not tell the current state, so a conflict costs one more request. If the reply to a write
// is lost, the engine reads the object to find out whether the write was applied.
//
// Another program can change an object and leave its record as it is: for example, it adds an annotation. Then the
// API server refuses the next PUT, and the store sends it again with the new resourceVersion. A write of this
// store removes such an annotation.
//
// If the API server refuses a token before its end, the store gets a new one, and sends the request again.
//
// A waiter watches the object, from the resourceVersion of its read.
//
// # Promises
//
// The API server acknowledges a write when etcd has. See package etcdstore about the disks of etcd.
//
// # Rights
//
// The user or service account needs the verbs get, list, watch, create and update for leases in the namespace.
// Sweeps and "holdfast doctor" also use delete.
package kubestore
