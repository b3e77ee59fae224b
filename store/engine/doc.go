// Package engine turns a driver for a storage system into a [store.Store]. The driver sends
// single requests: it reads a small text, writes a text under a condition, and lists keys. Any
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
// The engine keeps the contract of package store. It repeats requests, resolves writes after a
// lost reply or an unexpected refusal, keeps tombstones, and never uses a version twice. If a
// server is not known to honour conditions, the engine tests it with requests to a separate key.
//
// # What is stored
//
// The engine stores one [Envelope] for each register. The driver decides the form of the envelope:
// a text ([Envelope.Encode]), the columns of a row, or the attributes of an item. An envelope
// contains a nonce that is new in every write, and the nonces of up to seven earlier states. A
// deleted register remains as a tombstone. Without the tombstone, the first write after a delete
// would look like the first write of the register.
//
// # Outcomes
//
// The engine chooses the nonce, and with it the version, before it sends a write. If the engine
// repeats the write, the nonce and the condition are the same, so the server applies at most one of
// the attempts. After a lost reply or a refusal, the engine gets the current state from the
// refusal, or reads it. Then it compares the nonces:
//
//   - If the current nonce is the nonce of the write, the write was applied.
//   - If the nonce of the write is among the earlier nonces, the write was applied, and other
//     writes have superseded it. That is a success too.
//   - If the current state is the state that the write names, the write is not applied yet. The
//     engine sends it again.
//   - If the earlier nonces contain the state that the write names, but not the nonce of the
//     write, the write will never be applied. This is a conflict.
//   - If the earlier nonces contain neither the nonce of the write nor the state that it names,
//     the outcome depends on the replies. If no reply was lost, it is a conflict. Otherwise it is
//     unknown. This conflict is wrong in one case: a proxy sends the write twice and returns the
//     second answer, and more than seven other writes follow before the engine gets the current
//     state. Nothing distinguishes this from a write that names an old version.
//
// [Store.Resolve] follows the same rules; a caller uses it to resolve a write later. An unknown
// outcome is a [store.InDoubtError], which names the version.
//
// # Requests
//
// A read is one request, and so is a successful write. A refused write costs one more read,
// unless the refusal carries the current state. If a create finds a tombstone, the engine sends
// the create again with the tombstone as its condition. Before the first write to a store that is
// not known to honour conditions, the engine probes the store with six requests ([Store.Verify]).
package engine
