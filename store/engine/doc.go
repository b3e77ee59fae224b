// Package engine makes registers of anything that can write one small text under a
// condition: an object store with conditional puts, a table with compare-and-swap. It
// is the one place below [store.Store] that decides what became of a write.
//
// A backend is a [Driver]: it reads an envelope, writes one on a state, and lists keys,
// by single requests. The engine makes of that the contract of a [store.Store]: it
// repeats requests, settles lost replies and odd refusals, keeps tombstones, makes
// versions that never return, and probes a server that is not known to be good.
//
//	type driver struct{ ... }
//	func (d *driver) Read(ctx context.Context, key string, seen engine.Tag) (engine.Stored, error)
//	func (d *driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error)
//	func (d *driver) List(ctx context.Context, prefix string) iter.Seq2[string, error]
//
//	s, err := engine.New(&driver{}, engine.Options{Traits: store.Traits{Name: "my store"}})
//
// The file docs/adding-a-store.md of this module shows a complete one. Packages
// bucketstore and aws/dynamostore are drivers of this engine.
//
// # What is stored
//
// One [Envelope] for each register, whatever the backend makes of it: a text
// ([Envelope.Encode]), the columns of a row, the attributes of an item. It holds a nonce
// that is new in every write, and the nonces of up to seven states before it. A deleted
// register is a tombstone, which stays, since a register that is removed and made again
// could not be told from one that was never there.
//
// # Outcomes
//
// The nonce, and with it the version, is chosen before a write is sent, and stays the
// same when the write is sent again: under one condition at most one of them is applied.
// After a lost reply, and after a refusal, the engine looks at what stands there: as
// the refusal tells it, or by a read.
//
//   - The write's nonce stands there: it was applied.
//   - The nonce stands among those before: it was applied, and others have written since.
//     That is a success too.
//   - The state that it names stands there: not applied yet. It is sent again.
//   - Another state, whose past names what followed that state: the write was not applied
//     and never will be. A conflict.
//   - Another state, whose past does not reach back so far: a conflict if no reply was
//     lost, and otherwise unknown.
//
// The same holds for [Store.Settle], by which others find out later. An outcome that
// stays unknown is a [store.UnknownError], which names the version. The version of a
// success whose reply was lost, and that others have superseded, lacks the server's tag;
// a write that names it is a conflict like any other.
//
// # Requests
//
// A read is one request, and so is a write that succeeds. A write that is refused costs
// a read more, unless the refusal tells what was in the way. A create that finds a
// tombstone is sent again on it. The first write to a store that is not known to be good
// is preceded by the probe ([Store.Verify]), six requests.
package engine
