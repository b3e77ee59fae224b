// Package checkpoint saves positions in streams. A position says how far a worker has processed its
// stream. Positions survive crashes and power cuts. They never move backwards, even if several
// processes write them.
//
// # Use
//
// Open a store, and create a keeper. The keeper is the value that reads and writes the checkpoints
// in the store:
//
//	st, err := filestore.Open("/var/lib/shop", nil) // or s3store.Open, dynamostore.Open, ...
//	keeper, err := checkpoint.New(st, nil)
//
// [Run] is the loop of a worker. It reads the checkpoint, calls a function for each later event,
// and saves the position. With several workers it runs under a lease:
//
//	err = checkpoint.Run(ctx, keeper, "orders", source, handle, nil)
//
// A worker that has its own loop calls two methods of [Store]:
//
//	from, err := keeper.Get(ctx, "orders", nil) // store.ErrNotFound: begin at the beginning
//	_, err = keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 17}, nil)
//
// The methods Reset, Delete, List and Watch are for people and tools. [New] returns a
// [RegisterStore], which stores each checkpoint in a register of a [store.Store]. Package avisofile
// stores all checkpoints in one JSON file that other programs can share.
//
// # What is promised
//
//   - Advance only moves a checkpoint forward. Only Reset and Delete can lower the sequence of a
//     key.
//   - An acknowledged Advance is as durable as a Put of the store. The answers [Unchanged] and
//     [Behind] are equally durable: the store has this position or a later position.
//   - Get is linearizable, unless the caller allows an answer from memory ([GetOptions].Cached). It
//     may return a state of another writer that is not durable yet. The next Advance makes that
//     state durable.
//   - A [Status] is about the state of the checkpoint at one moment during the call. The keeper
//     never answers Behind, Unchanged, Mismatch, Fenced and RolledBack from memory.
//   - [store.OutcomeOf] returns the outcome of every error. If the outcome is "not applied", the
//     write certainly has no effect, now or later. If the outcome is unknown, the caller can repeat
//     the same Advance.
//   - A context bounds the call, including the wait for other callers. If the context ends during
//     a write, the outcome is unknown. The keeper then reads the record again before it uses its
//     memory.
//
// There is no promise about several keys together, or about the order of calls that run at the same
// time. If the store does not obey its contract, there is no promise at all.
//
// # Moving back
//
// Reset and Delete are for people and tools. Each of these calls begins a new epoch: a number in
// the checkpoint that counts these calls. The keeper refuses an Advance with an older epoch, with
// the status RolledBack. So a worker that is still at position 100 cannot undo a reset to position
// 10. The caller passes the epoch of its work as [AdvanceOptions].Epoch. The default is the epoch
// that the keeper last returned to its user. After a Delete, a record with the epoch and the token
// remains.
//
// If a user restores the store from a backup, or empties it by hand, the store has an older state.
// If this keeper has read the later state, an Advance then also gets RolledBack. After a Get, the
// keeper accepts the older state.
//
// # Fencing
//
// A lease can expire before its holder notices. So the holder passes the fencing token of its grant
// with each call. The keeper saves the highest token in the checkpoint, and refuses lower tokens. A
// new holder first calls the method Fence of [Store], and continues from the state that Fence
// returns. From then on the keeper refuses all calls of earlier holders. If a checkpoint has a
// token, the keeper refuses calls without a token. The option Force allows calls without a token.
// Use the tokens of one lock only, because tokens of two locks cannot be compared.
//
// # Sharing of writes
//
// The goroutines of one process share the writes on a key. Calls that arrive during a write wait
// for the next write. That write saves the highest position of all these calls. Calls for different
// keys never share a write. If there is only one caller, each Advance costs one request: the keeper
// remembers the last state, and writes on the condition that the register still has this state. If
// another program has changed the register, the store refuses the write.
//
// # Unknown outcomes
//
// Each record has a random nonce and the nonces of the eight writes before it. If the reply to a
// write is lost, the keeper reads the record back:
//
//   - If the record has the nonce of the write, the write was applied. If the store is a
//     [store.UnsyncedPutter], a reader can see a write before it is durable. On such a store the
//     keeper writes the same state once more.
//   - If the record is still in the old state, the keeper sends the same bytes again.
//   - If the record has the nonce of the old state in its list, but not the nonce of the write, the
//     write will never be applied.
//
// If a store cannot recognise a write ([store.Traits.Delayed]), the keeper does not
// read the record back, and the outcome stays unknown.
//
// # The record
//
// The value of the register "checkpoint/KEY" is a JSON object in one line:
//
//	{"holdfast":1,"kind":"checkpoint","key":"jobs/orders","epoch":3,"sequence":17,
//	 "event_id":"mars@17","data":"{\"cursor\":\"a\"}","token":1763680000123,"n":41,
//	 "nonce":"R4KD...","written":"2026-02-03T04:05:06.789Z"}
//
// Its fields are:
//
//   - holdfast: the version of the format. The keeper refuses a record with a higher version than
//     it knows.
//   - kind, key: the kind and the key of the record. If a record is stored under a key other than
//     its own, the keeper refuses it.
//   - epoch: a number that begins at 1.
//   - n: the number of writes of this register. It begins at 1.
//   - sequence: 0 to 2^64-1. It is absent if no position is saved: the checkpoint was deleted, or
//     only Fence was called.
//   - event_id, data: as the caller passed them, together at most [MaxPayload]. Data that is not
//     UTF-8 is in data_base64.
//   - token: the highest fencing token; absent if there is none.
//   - nonce: the nonce of this write.
//   - written: the time by the writer's clock, for people only.
//   - history: what happened to the checkpoint; absent if no keeper keeps it ([Options].History). A
//     damaged history never stops a change. A keeper with this option replaces it. If the record is full, a
//     write drops the history.
//
// If a record has other fields, a write does not change them. The keeper never overwrites a
// register whose value is not such a record: for example, if a name occurs twice, a number is out
// of range, or the text is not UTF-8. The error then matches [store.ErrCorrupt].
//
// Aviso is ECMWF's client for event notifications. The rule that a checkpoint only moves forward
// comes from aviso's state file. Epochs, tombstones and the resolution of unknown outcomes are
// additions of this package.
package checkpoint
