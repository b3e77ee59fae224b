// Package bucketstore makes registers of the objects of any bucket that has
// conditional writes: a put that succeeds only if there is no object, and one that
// succeeds only if the object is in a given state.
//
// # What lies in the bucket
//
// The register K below the prefix P is the object P/K.json, so that no register
// lies in the way of another (some servers keep a/b from existing beside a). Bytes
// of a key that not every server takes are written as an exclamation mark and two
// hexadecimal digits; [Store.ObjectKey] tells the name. The body is one JSON object
// for people and programs:
//
//	{"holdfast":1,"nonce":"Zx1…","after":["Qm0…"],"value":{"your":"JSON"}}
//
// A value that is no JSON stands in base64 in its place. The nonce is new in every
// write, so that no two bodies are equal, nor two ETags; it is also what settles a
// write whose reply was lost. "after" names the states before it, newest first, up
// to seven.
//
// A deleted register is a tombstone: an object of exactly [TombstoneSize] bytes, a
// size that no other body has, so that a listing tells tombstones from registers
// without reading them. Tombstones stay, since an object that is removed and
// created again could not be told from one that was never there.
//
// # Outcomes
//
// They are those of package engine, which sends a write, reads the object after a lost
// reply or a refusal, and judges by the nonces. The version of a register is its nonces
// and, behind an @, the version of the object.
//
// # Stores that ignore conditions
//
// There are servers that accept a condition and ignore it; two programs would hold
// the same lock. Unless the bucket is known to be good, the first write of a
// [Store] tries the conditions on an object made for that, below P/.holdfast/probe, by
// six requests of which the last removes it. Where a condition is ignored nothing else is written, and
// every write fails with an [UnsafeError].
package bucketstore
