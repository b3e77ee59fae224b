// Package bucketstore is a store in a bucket of an object storage service. The bucket needs two
// conditional writes: a put that succeeds only if there is no object, and a put that succeeds
// only if the object is in a given state.
//
// # Use
//
//	s, err := bucketstore.New(bucket, "app", nil)
//	client, err := lease.New(s, nil)
//
// The bucket is an [object.Bucket]. For Amazon S3 use package aws/s3store. It also reports the
// age of a register, so that a waiter gets the lock of a dead holder sooner.
//
// # Servers that ignore conditions
//
// Some servers accept a condition and ignore it. Then two programs could hold the same lock. So if
// the bucket is not known to honour conditions, the first write of a [Store] tests conditions on a
// separate object below P/.holdfast/probe, where P is the prefix. The test takes six requests; the
// last request removes the object. If the server ignores a condition, every write fails with an
// [UnsafeError], and the Store writes nothing else.
//
// # What is stored
//
// The register K below the prefix P is the object P/K.json. On some servers the object a/b cannot
// exist if the object a exists. Because of the ending .json, the registers a and a/b can exist
// together. Some servers refuse certain bytes in a key. The store replaces each such byte by an
// exclamation mark and two hexadecimal digits. [Store.ObjectKey] returns the key of the object. The
// body is one JSON object for people and programs:
//
//	{"holdfast":1,"nonce":"Zx1…","after":["Qm0…"],"value":{"your":"JSON"}}
//
// A value that is not JSON is written in base64 instead. The nonce is new in every write, so no
// two bodies and no two ETags are equal. "after" has the nonces of up to seven earlier states,
// newest first.
//
// A deleted register is a tombstone: an object of exactly [engine.TombstoneSize] bytes. No other
// body has that size, so a listing distinguishes tombstones from registers without reading them.
// Tombstones remain. Without a tombstone, the first write after a delete would look like the
// first write of the register.
//
// # Outcomes
//
// Package engine resolves writes: it reads the object after a lost reply or a refusal, and compares
// the nonces. The version of a register consists of its nonces, an @, and the version of the
// object.
//
// Another program can change the metadata of an object, or copy the object onto itself. On some servers, for
// example Azure, the object then has another version, and the next write of the register is a conflict. The holder
// of a lock keeps its lease then: its record has not changed.
package bucketstore
