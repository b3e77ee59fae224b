// Package checkpoint saves positions in streams: how far a worker has come. Positions survive
// crashes and power cuts, and never move backwards, whichever process writes them.
//
// # Use
//
// Open a store, and make a keeper of the checkpoints in it:
//
//	st, err := filestore.Open("/var/lib/shop", nil) // or s3store.Open, dynamostore.Open, ...
//	keeper, err := checkpoint.New(st, nil)
//
// [Run] is the loop of a worker. It reads the checkpoint, calls a function for each event after
// it, and saves the position as it proceeds, under a lease if there are several workers:
//
//	err = checkpoint.Run(ctx, keeper, "orders", source, handle, nil)
//
// A worker with a loop of its own calls two methods of [Store]:
//
//	from, err := keeper.Get(ctx, "orders", nil) // store.ErrNotFound: begin at the beginning
//	_, err = keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 17}, nil)
//
// For people and tools there are Reset, Delete, List and Watch. A [RegisterStore], which New
// returns, keeps each checkpoint in a register of a [store.Store]. Package avisofile keeps all
// of them in one JSON file that other programs share.
//
// # What is promised
//
//   - Advance moves forward only: among all processes, the sequence of a key never falls, except
//     by Reset and Delete.
//   - An acknowledged Advance is as durable as a Put of the store. That holds for Advanced, and
//     also for Unchanged and Behind, since a caller may rely on them as much.
//   - Get is linearizable unless the caller allows an answer from memory. It may return a state
//     of another writer that is not durable yet; the next Advance from there makes it durable.
//   - A status is true of a state that was current while the call ran. Behind, Unchanged,
//     Mismatch, Fenced and RolledBack are never answered from memory.
//   - [store.OutcomeOf] returns the outcome of every error. If the outcome is "not applied",
//     the write has certainly no effect, now or later. An outcome
//     remains unknown only if the keeper cannot find it out; the caller can then repeat the same
//     Advance.
//   - A context bounds the call, including the wait for other callers. A caller whose context
//     ends during a write gets an unknown outcome. The keeper then reads again before it uses
//     its memory.
//
// Not promised: anything across keys; the order of calls that run at the same time; anything on
// a store that does not keep its contract.
//
// # Moving back
//
// Reset and Delete are for people and tools. Both begin a new epoch, and an Advance of an older
// epoch gets RolledBack. So a worker that is still at position 100 does not undo a reset to 10.
// The epoch of an Advance is [AdvanceOptions].Epoch, or else the one that the keeper last showed
// to its user. A deleted checkpoint leaves a record that keeps epoch and token.
//
// RolledBack is also the answer if the store itself went back (it was restored from a backup, or
// emptied by hand), and this keeper has seen the later state. A Get accepts the older state.
//
// # Fencing
//
// A lease expires by time, and its holder may be the last to notice. So the holder passes the
// fencing token of its grant with each call. The checkpoint keeps the highest token that it has
// seen, and refuses lower ones. A new holder first calls Fence of the [Store], and continues from
// the state that this returns. From then on the keeper refuses all calls of earlier holders. It
// refuses a call without a token on a checkpoint that has one, unless the call is forced. Use the
// tokens of one lock only: tokens of two locks cannot be compared.
//
// # Sharing of writes
//
// Calls on one key by the goroutines of one process share writes: during one write the next
// calls gather, and the keeper writes the highest of them for all. A single caller costs one
// request for each Advance, since the keeper writes against the state that it remembers; the
// store refuses the write if that state is outdated. Different keys share nothing.
//
// # Unknown outcomes
//
// Each record carries a random nonce and those of the eight writes before it. When the reply to a
// write is lost, the keeper reads the record back. If it finds the write's nonce, the write was
// applied. (A [store.UnsyncedPutter] shows writes before they are durable; there, one more write
// of the same state makes it durable.) If it finds the old state, it sends the same bytes again.
// The record lists the nonces of its last writes. If this list goes back to the old state and
// does not contain the nonce of the write, the write will never be applied. On stores where a
// write cannot be recognised ([store.Traits].CannotReadOwnWrites) the
// keeper does not read back, and the outcome remains unknown.
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
//   - holdfast: the version of the format. A newer one is refused.
//   - kind, key: what the record is; a record under another key is refused.
//   - epoch: from 1; n: the number of writes of this register, from 1.
//   - sequence: 0 to 2^64-1; missing if no position is saved (deleted, or only fenced).
//   - event_id, data: as the caller passed them; data that is not UTF-8 is in data_base64
//     instead. Together at most [MaxPayload].
//   - token: the highest fencing token; missing for none.
//   - nonce: of this write. (An early release wrote "recent" too, which is read but not kept.)
//   - written: the time by the writer's clock, for people only.
//
// Other fields are kept as they are when the record is written again. A register that holds
// anything else is an error that matches [store.ErrCorrupt], and is never overwritten. Names that
// occur twice, invalid UTF-8 and numbers out of range count as that too.
//
// # Where it comes from
//
// Epochs, tombstones and the resolution of in-doubt writes are this project's own. The rule that
// a checkpoint only moves forward, and the file format of avisofile, are those of the state file
// of aviso.
package checkpoint
