// Package engine makes registers of anything that can write one small text under a
// condition: an object store with conditional puts, a table with compare-and-swap. It
// is the one place below [store.Store] that decides what became of a write.
//
// A backend is a [Driver]: it reads an envelope, writes one on a state, and lists keys,
// by single requests. The engine turns that into the contract of a [store.Store]. It
// repeats requests, finds out what became of a write after a lost reply or an unexpected
// refusal, keeps tombstones, and makes versions that are never used twice. It probes a
// server of which it does not know that it honours conditions.
//
//	type driver struct{ ... }
//	func (d *driver) Read(ctx context.Context, key string, seen engine.Tag) (engine.Stored, error)
//	func (d *driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error)
//	func (d *driver) List(ctx context.Context, prefix string) iter.Seq2[string, error]
//
//	s, err := engine.New(&driver{}, engine.Options{Traits: store.Traits{Name: "my store"}})
//
// The file docs/adding-a-store.md of this module shows a complete driver. Packages
// bucketstore, sqlstore and aws/dynamostore have drivers of this engine.
//
// # What is stored
//
// One [Envelope] for each register. The backend decides its form: a text
// ([Envelope.Encode]), the columns of a row, the attributes of an item. It holds a nonce
// that is new in every write, and the nonces of up to seven states before it. A deleted
// register is a tombstone, which stays: without it, the first write after a delete would
// look like the first write ever.
//
// # Outcomes
//
// The nonce, and with it the version, is chosen before a write is sent, and stays the
// same when the write is sent again: under one condition at most one of them is applied.
// After a lost reply, and after a refusal, the engine looks at the current state: from
// the refusal, if that carries it, or by a read.
//
//   - Its nonce is that of the write: the write was applied.
//   - The write's nonce is among the nonces before it: the write was applied, and others
//     have superseded it. That is a success too.
//   - It is the state that the write names: the write is not applied yet. The engine
//     sends it again.
//   - It is another state, and its past nonces reach back to the state that the write
//     names: the write was not applied and never will be. A conflict.
//   - It is another state, and its past nonces do not reach back so far: a conflict if no
//     reply was lost, and otherwise unknown.
//
// [Store.Resolve], by which a caller finds out later, follows the same rules. An outcome
// that stays unknown is a [store.InDoubtError], which names the version. If the reply of
// a successful write was lost and others have superseded it, its version lacks the
// server's tag. A write that names that version gets a conflict like any other.
//
// # Requests
//
// A read is one request, and so is a write that succeeds. A write that is refused costs
// one read more, unless the refusal carries the current state. A create that finds a
// tombstone is sent again, with the tombstone as its condition. The probe
// ([Store.Verify]) precedes the first write to a store that is not known to honour
// conditions. It is six requests.
package engine
