// Package etcdstore stores registers in etcd.
//
//	s, err := etcdstore.Open(ctx, "etcd://etcd1:2379,etcd2:2379,etcd3:2379/locks", nil)
//
// # Keys
//
// A register with the key K, below the prefix P, is one key of etcd:
//
//	P/K    the record of the register, as text
//	P/K/   the tombstone of a deleted register
//
// At most one of the two keys exists. No key of a register ends with a slash, so they never collide. A
// listing reads keys without values, and recognizes a tombstone by its slash.
//
// # Requests
//
// A write is one transaction. Its condition compares the modification revision of the key, and etcd never
// uses a revision twice. If the condition is not true, the same transaction returns the current record. So
// a conflict costs one request, like a success. A read is one linearizable transaction: etcd asks a majority
// of its members before it answers. The store never sends serializable reads.
//
// If the reply to a write is lost, the engine sends the transaction again. At most one of the two is
// applied. If the first one was applied, the refusal of the second shows the record of the first.
//
// [Open] makes a client that sends each request once. The default client repeats a transaction only after
// the status Canceled or DeadlineExceeded of a server or proxy, and after a refused token. The store also
// works with such a client ([New]), because a record names its write.
//
// A waiter watches the key from the revision after its read, so no change is lost between the two.
//
// # Promises
//
// etcd acknowledges a write when a majority of the members has written it to disk. So no acknowledged write
// is lost if members are killed, or lose their power. This is not true for a server that runs with
// --unsafe-no-fsync. A client cannot see this setting.
//
// If a snapshot is restored, or a cluster is made with --force-new-cluster, old states and tokens return.
//
// # Rights
//
// With authentication, the role of the user needs the permission readwrite for the prefix P/.
package etcdstore
