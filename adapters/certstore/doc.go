// Package certstore keeps the certificates of certmagic and Caddy in a store of Holdfast: a bucket, a database or a
// directory. All servers of a cluster share these certificates, and one server at a time orders a certificate.
//
//	storage, err := certstore.New(st, nil)
//	certmagic.Default.Storage = storage
//
// [Storage] is a certmagic.Storage. It also implements the interfaces TryLocker and LockLeaseRenewer of certmagic.
//
// # Locks
//
// A lock is a lease of package lease. At any time at most one server relies on a lock, under the conditions that
// package lease states. If a server dies, another server gets its locks after the TTL. In a directory of the
// same machine, it gets them at once.
//
// certmagic does not notice that a lease is lost, for example because the machine was suspended. It continues with
// its order, while another server may have the lock and order the same certificate. Then this happens:
//
//   - Store and Delete refuse to change the certificate, the private key and the metadata that belong to the lock. So
//     the files that the other server has stored stay together.
//   - The next retry of certmagic takes the lock again, if it is free. Then certmagic looks for the certificate of the
//     other server before it orders.
//   - Unlock returns a lease.LostError, and certmagic logs the error.
//
// Each record contains the token of the lock under which it was written. So Store and Delete also refuse a request that
// the network delays. This works only for subjects in ASCII, as Caddy passes them. All other keys belong to no lock:
// their last writer wins. After Unlock, and so after certmagic.CleanUpOwnLocks, nothing is checked.
//
// # Registers
//
// The value of a key is in the register "certmagic/" + key, and the lock of a name is the lock "certmagic/" + name.
// As in a file system, "/a//b/" is the same key as "a/b", and no key leaves the directory with "..". If a key or a
// name has more than 400 bytes, the register or the lock has a hash in place of the end of the name.
//
// A register contains one line of JSON, a newline, and the value. The line is an object:
//
//	certstore   version of the format: 1
//	key         the key
//	modified    time of the last write by the writer's clock
//	lock        name of the lock under which the value was written
//	token       token of that lock
//
// A Storage keeps the fields that it does not know. It neither reads nor replaces a register with a higher version.
// The line and the value together have at most 64 KiB; certificates have a few KiB.
//
// Values are not encrypted, and they include private keys. Each program that can read the store can read them. A store
// can keep replaced and deleted values for some time.
//
// Each deleted key leaves a tombstone in the store. certmagic writes and deletes a new key before each order, to test
// the storage. Config.DisableStorageCheck of certmagic prevents that. The command "holdfast copy-store" copies the
// locks and not the values.
package certstore
