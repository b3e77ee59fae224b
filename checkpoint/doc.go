// Package checkpoint keeps positions in streams: how far a worker has come. Positions
// survive crashes and power cuts, and never go backwards, whichever process writes them.
//
//	st, err := filestore.Open("/var/lib/shop", nil) // or s3store.Open, dynamostore.Open, ...
//	...
//	keeper, err := checkpoint.New(st, nil)
//	...
//	from, err := keeper.Get(ctx, "orders", nil) // store.ErrNotFound: begin at the beginning
//	...
//	_, err = keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 17}, nil)
//
// A [Store] keeps any number of checkpoints, each under a key. [RegisterStore] keeps
// each in a register of a [store.Store]; package avisofile keeps them in one JSON
// file that other programs share. [Run] is the loop of a worker.
//
// # What is promised
//
//   - Advance moves forward only: among all processes, the sequence of a key never falls,
//     except by Reset and Delete.
//   - What is acknowledged is as durable as a Put of the store. That holds for Advanced,
//     and also for Unchanged and Behind, since a caller may rely on them as much.
//   - Get is linearizable unless the caller allows an answer from memory. It may return a
//     state of another writer that is not durable yet; the next Advance from there makes
//     it durable.
//   - A status is true of a state that was current while the call ran. Behind, Unchanged,
//     Mismatch, Fenced and RolledBack are never answered from memory.
//   - [store.OutcomeOf] returns the outcome of every error. "Not applied" is proof. An
//     outcome stays unknown only where the keeper cannot find it out; the caller can then
//     repeat the same Advance.
//   - A context bounds the call, waiting for others included. A caller that gives up
//     during a write gets an unknown outcome. The keeper then reads again before it uses
//     its memory.
//
// Not promised: anything across keys; order between calls that run at the same time;
// anything against a store that does not keep its contract.
//
// # Moving back
//
// Reset and Delete are for people and tools. Both begin a new epoch, and an Advance of an
// older epoch gets RolledBack. So a worker that still is at position 100 does not undo a
// reset to 10. The epoch of an Advance is [AdvanceOptions].Epoch, or else the one that
// the keeper last showed to its user. A deleted checkpoint leaves a record that keeps
// epoch and token.
//
// RolledBack is also the answer when the store itself went back (it was restored from a
// backup, or emptied by hand), if this keeper has seen the later state. A Get accepts the
// older state.
//
// # Fencing
//
// A lease expires by time, and its holder may notice last. So the holder passes the token
// of its grant with each call. The checkpoint keeps the highest token that it has seen,
// and refuses lower ones. A new holder raises the fence first, with [Store].Fence, and
// continues from the state that this returns; from then on the keeper refuses all calls
// of earlier holders. A call without a token is refused on a checkpoint that has one,
// unless it is forced. Use the tokens of one lock only: tokens of two locks cannot be
// compared.
//
// # Sharing of writes
//
// Calls on one key by the goroutines of one process share writes: during one write the
// next calls gather, and the keeper writes the highest of them for all. A single caller
// costs one request for each Advance, since the keeper writes against the state that it
// remembers; the store refuses the write if that state is outdated. Different keys share
// nothing.
//
// # Unknown outcomes
//
// Each record carries a random nonce and those of the eight writes before it. When the
// reply to a write is lost, the keeper reads the record back. If the write's nonce is
// there, the write was applied. (A [store.UnsyncedPutter] shows writes before they are
// durable; there, one more write of the same state makes it durable.) If the old state is
// there, the keeper sends the same bytes again. If the nonces there reach back to the old
// state without the write's own, the write will never be applied. On stores where a write
// cannot be recognised ([store.Traits].CannotReadOwnWrites) the keeper does not read back, and the
// outcome stays unknown.
//
// # The record
//
// The value of the register "checkpoint/KEY" is a JSON object in one line:
//
//		{"holdfast":1,"kind":"checkpoint","key":"jobs/orders","epoch":3,"sequence":17,
//		 "event_id":"mars@17","data":"{\"cursor\":\"a\"}","token":1763680000123,"n":41,
//		 "nonce":"R4KD...","written":"2026-02-03T04:05:06.789Z"}
//
//	  - holdfast: the version of the format. A newer one is refused.
//	  - kind, key: what this is; a record in another key's place is refused.
//	  - epoch: from 1; n: the number of writes of this register, from 1.
//	  - sequence: 0 to 2^64-1; missing where nothing is saved (deleted, or only fenced).
//	  - event_id, data: as the caller gave them; data that is not UTF-8 stands in
//	    data_base64 instead. Together at most [MaxPayload].
//	  - token: the highest fencing token; missing for none.
//	  - nonce: of this write. (An early release wrote "recent", too: it is read, and not
//	    kept.)
//	  - written: the writer's clock, for people only.
//
// Other fields are kept as they are when the record is written again. A register
// that holds anything else is an error that matches [store.ErrCorrupt], and is never
// overwritten; names that occur twice, invalid UTF-8 and numbers out of range count
// as that.
//
// # Where it comes from
//
// Epochs, tombstones and the settling of outcomes are this project's own. The rule that a
// checkpoint only moves forward, and the file format of avisofile, are those of the state
// file of aviso.
package checkpoint
