// Package bucketstore makes registers of the objects of any bucket that has
// conditional writes: a put that succeeds only if there is no object, and one that
// succeeds only if the object is in a given state.
//
// # What is stored
//
// The register K below the prefix P is the object P/K.json. With that ending no register
// is in the way of another: on some servers the object a/b cannot exist beside the object
// a. Bytes of a key that not every server accepts are written as an exclamation mark and
// two hexadecimal digits; [Store.ObjectKey] returns the name. The body is one JSON object
// for people and programs:
//
//	{"holdfast":1,"nonce":"Zx1…","after":["Qm0…"],"value":{"your":"JSON"}}
//
// A value that is no JSON is written in base64 instead. The nonce is new in every write,
// so no two bodies and no two ETags are equal. The nonce also shows what became of a
// write whose reply was lost. "after" has the nonces of up to seven states before this
// one, newest first.
//
// A deleted register is a tombstone: an object of exactly [TombstoneSize] bytes, a size
// that no other body has, so that a listing tells tombstones from registers without
// reading them. Tombstones stay: without one, the first write after a delete would look
// like the first write ever.
//
// # Outcomes
//
// They are those of package engine, which sends a write, reads the object after a lost
// reply or a refusal, and judges by the nonces. The version of a register is its nonces
// and, after an @, the version of the object.
//
// # Stores that ignore conditions
//
// Some servers accept a condition and ignore it; two programs could then hold the same
// lock. Unless the bucket is known to honour conditions, the first write of a [Store]
// tries them on a separate object below P/.holdfast/probe. That takes six requests, of
// which the last removes the object. If the server ignores a condition, nothing else is
// written, and every write fails with an [UnsafeError].
package bucketstore
