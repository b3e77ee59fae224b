// Package engine turns a driver for a storage system into a [store.Store]. The driver sends
// single requests: it reads a small text, writes one under a condition, and lists keys. Any
// system with conditional puts, compare-and-swap or transactions can do that.
//
// # Use
//
// Write a [Driver], and pass it to [New]:
//
//	type driver struct{ ... }
//	func (d *driver) Read(ctx context.Context, key string, seen engine.Tag) (engine.Stored, error)
//	func (d *driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error)
//	func (d *driver) List(ctx context.Context, prefix string) iter.Seq2[string, error]
//
//	s, err := engine.New(&driver{}, &engine.Options{Traits: store.Traits{Name: "my store"}})
//
// The file docs/adding-a-store.md of this module shows a complete driver. Packages bucketstore,
// sqlstore and aws/dynamostore have drivers of this engine.
//
// The engine keeps the contract of package store: it repeats requests, finds out whether a
// write was applied after a lost reply or an unexpected refusal, keeps tombstones, and never
// uses a version twice. It probes a server that is not known to honour conditions.
//
// # What is stored
//
// The engine stores one [Envelope] for each register. The driver decides its form: a text
// ([Envelope.Encode]), the columns of a row, or the attributes of an item. An envelope holds a
// nonce that is new in every write, and the nonces of up to seven states before it. A deleted
// register is a tombstone, which remains: without it, the first write after a delete would
// look like the first write of all.
//
// # Outcomes
//
// The engine chooses the nonce, and with it the version, before it sends a write. If it sends
// the write again, the nonce stays the same: under one condition the server applies at most one
// of the tries. After a lost reply, and after a refusal, the engine gets the current state from
// the refusal, if the refusal carries it, or by a read:
//
//   - The current nonce is that of the write: the write was applied.
//   - The nonce of the write is among the earlier ones: the write was applied, and other writes
//     have superseded it. That is a success too.
//   - The current state is the one that the write names: the write is not applied yet. The
//     engine sends it again.
//   - It is another state, and its earlier nonces reach back to the state that the write names:
//     the write was not applied and never will be. This is a conflict.
//   - It is another state, and its earlier nonces do not reach back so far: a conflict if no
//     reply was lost, and otherwise unknown.
//
// [Store.Resolve] follows the same rules; a caller uses it to resolve a write later. An outcome
// that remains unknown is a [store.InDoubtError], which names the version. If the reply of a
// successful write was lost and other writes have superseded it, its version lacks the server's
// tag. A write that names that version gets a conflict like any other.
//
// # Requests
//
// A read is one request, and so is a write that succeeds. A refused write costs one read more,
// unless the refusal carries the current state. If a create finds a tombstone, the engine sends
// it again with the tombstone as its condition. The first write to a store that is not known to
// honour conditions runs the probe first ([Store.Verify]): six requests.
package engine
