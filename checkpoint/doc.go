// Package checkpoint keeps positions in streams: how far a worker has come, saved
// so that they survive crashes and power cuts, and never go backwards, whoever
// writes them.
//
//	st, err := filestore.Open("/var/lib/shop", nil) // or s3store.Open, dynamostore.Open, ...
//	...
//	keeper, err := checkpoint.New(st, nil)
//	...
//	from, err := keeper.Get(ctx, "orders", nil) // store.ErrNotFound: begin at the beginning
//	...
//	_, err = keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 17}, nil)
//
// A [Keeper] keeps any number of checkpoints, each under a key. [StoreKeeper] keeps
// each in a register of a [store.Store]; package avisofile keeps them in one JSON
// file that other programs share. [Run] is the loop of a worker.
//
// # What is promised
//
//   - Advance moves forward only: among all processes, the sequence of a key never
//     falls but by Reset and Delete.
//   - Acknowledged is durable, as durable as a Put of the store: Advanced, and
//     Unchanged and Behind as well, since a caller may rely on them as much.
//   - Get is linearizable unless it may be answered from memory. What it shows may be
//     a write of another that is not durable yet; whatever is advanced from there
//     makes it so.
//   - A status is true of a state that stood while the call ran. Behind, Unchanged,
//     Mismatch, Fenced and RolledBack are never told from memory.
//   - Every error tells its outcome through [store.OutcomeOf]. "Not applied" is
//     proof. An unknown outcome is left only where nobody can find out; Advance can
//     then be repeated as it is.
//   - A context bounds the call, waiting for others included. Whoever gives up while
//     a write is under way is told that its outcome is unknown, and the keeper's
//     memory is not believed until it has been read again.
//
// Not promised: anything across keys; order between calls that run at the same time;
// anything against a store that does not keep its contract.
//
// # Moving back
//
// Reset and Delete are for people and tools. Both begin a new epoch, and an Advance
// that belongs to an older one is told RolledBack: so a worker that still thinks of
// position 100 does not undo a reset to 10. Which epoch an Advance belongs to is
// said by [AdvanceOptions].Epoch, or else it is the one that the keeper has last
// shown to its user. A deleted checkpoint leaves a record that keeps epoch and
// token.
//
// RolledBack is also told when the store itself went back, restored from a backup or
// emptied by hand, as far as this keeper has seen the later state. Get accepts it.
//
// # Fencing
//
// A lease ends by time, and its holder may be the last to hear of it. So it passes
// the token of its grant along: the checkpoint keeps the highest token that it has
// seen, and refuses lower ones. A new holder raises the fence first, with
// [Keeper].Fence, and goes on from what that returns; then nothing that an earlier
// holder still does can come between. A call without a token is refused on a
// checkpoint that has one, unless it is forced. Tokens are of one lock: those of two
// locks cannot be compared.
//
// # Sharing of writes
//
// Calls on one key by the goroutines of one process share writes: while one write is
// under way the next calls gather, and the highest of them is written for all. A
// caller that comes alone costs one request for each Advance, since the keeper
// writes against the state that it remembers, and that write is refused if it was
// wrong. Different keys share nothing.
//
// # Unknown outcomes
//
// Each record carries a random nonce and those of the eight writes before it. When
// the reply to a write is lost the keeper reads back: its nonce is there, so it was
// applied (on a store that shows writes before they are durable, a
// [store.VolatilePutter], one more write of the same makes sure that it is durable);
// the old state is there, so the same bytes are sent again; a line of
// nonces is there that leads past it, so it never will be. Stores on which a write
// cannot be recognised ([store.Traits].NoReadBack) are not asked, and the outcome
// stays unknown.
//
// # The record
//
// The value of the register "checkpoint/KEY" is a JSON object in one line:
//
//		{"holdfast":1,"kind":"checkpoint","key":"jobs/orders","epoch":3,"sequence":17,
//		 "event_id":"mars@17","data":"{\"cursor\":\"a\"}","token":1763680000123,"n":41,
//		 "nonce":"R4KD...","recent":["...", ...],"written":"2026-02-03T04:05:06.789Z"}
//
//	  - holdfast: the version of the format. A newer one is refused.
//	  - kind, key: what this is; a record in another key's place is refused.
//	  - epoch: from 1; n: the number of writes of this register, from 1.
//	  - sequence: 0 to 2^64-1; missing where nothing is saved (deleted, or only fenced).
//	  - event_id, data: as the caller gave them; data that is not UTF-8 stands in
//	    data_base64 instead. Together at most [MaxPayload].
//	  - token: the highest fencing token; missing for none.
//	  - nonce, recent: of this write, and of up to eight before it, the latest first.
//	  - written: the writer's clock, for people only.
//
// Other fields are kept as they are when the record is written again. A register
// that holds anything else is an error that matches [store.ErrCorrupt], and is never
// overwritten; names that occur twice, invalid UTF-8 and numbers out of range count
// as that.
//
// # Where it comes from
//
// Epochs, tombstones and the settling of outcomes are this project's own; the rule
// that a checkpoint only moves forward, and the file format of avisofile, are those
// of the state file of aviso.
package checkpoint
