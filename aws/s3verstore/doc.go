// Package s3verstore keeps registers on a bucket with versions on S3 that has no
// conditional writes: old look-alikes of S3, and gateways.
//
//	st, err := s3verstore.Open(ctx, "s3+versioned://bucket/prefix?life=5s", nil)
//	...
//	client, err := lease.New(st, nil)
//
// Where the server honours conditional writes, package s3store is the better choice: a
// write is one request there, and takes milliseconds. Here it is at least three, and
// takes a pause of seconds. holdfast doctor tells which it is.
//
// # The assumption
//
//   - A PUT takes effect within Life ([Options], L) of its sending, or never: "sent" is
//     before its first byte leaves, "takes effect" is when listings show it, and time is
//     the largest that any clock of the sending machine says. A PUT whose answer took
//     longer than L has an unknown outcome and is left alone.
//   - A listing shows every version whose PUT was answered before the listing began.
//   - The order of the versions of an object is total and does not change. It need not
//     be the order in which they became visible: a version may be given its place early
//     and show up late.
//   - Clocks run at most Rho too fast or slow. Clocks of different machines are never
//     compared, nor is any time of the server's.
//
// Settle is longer than L by that factor and a listing. [Store.Measure] finds out how far a
// server is from showing versions at once and in order, and recommends both.
//
// # The protocol
//
// A register is an object; each write is a new version of it, an entry that has a number,
// and names the one before it (prev) and a start: the newest entry of the chain that its
// writer knew to be settled, by the id of its version. The state is the fold of the
// versions: it begins at the newest start that any listed entry names and passes over
// what is older; from there on an entry counts if its prev is the state.
//
//   - A write looks (unless it knows), puts its entry, pauses for Settle, lists, and
//     folds. In the chain: applied. Not in it: a conflict. Not listed, or older than the
//     start, or of a lower number than it: unknown. In the chain, but not without copies
//     of PUTs that were applied twice and were not known for a pause: unknown.
//   - Put and Delete then confirm: they put a second entry, which names the first as a
//     start. PutVolatile leaves that to the next one.
//   - Get lists. What was seen a pause ago, or is a start, it answers at once. For
//     anything newer it pauses, lists again, and answers the fold up to the place of what
//     it saw first: what was given a place before that is visible by then.
//   - Peek lists once and answers what it sees. That is good as the base of a write, and
//     to watch; it may turn out never to have happened.
//   - A write whose outcome is unknown is never taken for one's own by reading it back
//     ([store.Traits].NoReadBack): it is a stranger's, to be waited out.
//   - Versions that are older than a start which was known for a pause are removed, in
//     any order, by whoever has just judged a write; but none whose number is higher than
//     that of the start.
//   - A listing that lacks an entry which another one follows, or names as a start, is
//     repeated, unless it shows a start whose number is as high: then that entry was
//     superseded.
//
// # Why it works
//
// One winner: let two entries name the same prev, and A have the lower place. Whoever
// judges B does so a pause after B was put. A was given its place before B, so it was sent
// before B was judged less a pause, and is visible when B is judged, or never will be.
// So B's writer sees A before B, and B does not count. A's own writer sees A before B
// whatever it sees of B.
//
// Nothing is lost: an entry that was judged to count is passed over only by a fold that
// begins at a later start. A start is an entry of the chain that its namer knew to be
// settled: the chain up to it is final, by the argument above, and the entry judged is
// in it or was not acknowledged. Removing what lies before a start therefore changes no
// fold; and while an entry that names the start is listed, the fold knows where to begin.
// So the last one that names it is removed only when a later one is there.
//
// Reads are linearizable: what Get answers is final, so no later Get answers less. A
// write that was refused on what a listing showed refers to a state up to the place of
// what was shown; a Get that begins later pauses until that place is final.
//
// Without the assumption (a PUT takes effect after L) a register can lose writes that
// were not confirmed, and Get may answer what is taken back. Leases stay exclusive: a
// grant is confirmed, so that nothing that shows up later can come before it, and is
// never adopted by reading back; and its token is above that of every entry listed, the
// losers' too, so tokens rise. And the register stays readable: what shows up so late
// builds on something that is there, or that was superseded, which the numbers tell. A
// PUT that is applied a second time makes another version, which nobody takes for the
// start that the first one was.
//
// But the copies of an entry have one nonce, and what follows it follows any of them. So
// the first one in the order can make count what its writer, or who built on it, knew
// by the second alone; and if it became visible long after L, somebody who could not see
// it may have confirmed what lies between the two. Whoever judges leaves such copies out
// of its chain, as that one had to, but not out of the way of others. What counts without them was visible, and in its place, when
// the pause began; so whoever confirmed before this judgement saw it, as if there were
// no copies. The fold itself is the same for all: once the entry is confirmed, the copy
// that counts is a start. And a void copy that comes after a later start tells nothing of
// the first, which may have counted and been removed: that is the rule of the lower
// number, which the assumption does not make needless.
//
// A model of the protocol, in internal/model, is searched to the end for small cases:
// early places and late visibility, slow and lost answers, a writer that stops
// anywhere, removal in any order, pages of a listing, PUTs that are applied twice. Each
// of the rules above is taken away in turn, and missed.
//
// # What it costs
//
// With n versions listed in one page and nothing changed since the last look: Get and
// Peek 1 LIST and no body; a write by whoever knows the state 1 PUT, a pause and 1 LIST,
// and 1 PUT more for the confirmation; a version that is not known yet costs one GET.
// Versions never change, so that each body is read once. Every eighth write or so
// removes what is superseded, by one request, and a GET for each version of it that this
// store has not read. The first write of a register by a store costs up to three LISTs
// more, which look for locks of another program that took the oldest version for the
// owner; the first use of a store asks for the settings of the bucket (three requests).
//
// The shortest lease ([store.Traits].MinTTL) is four pauses and three seconds, so that a
// renewal, which takes a pause, is through in time.
//
// # Rights
//
// s3:PutObject, s3:GetObjectVersion, s3:GetObject, s3:DeleteObjectVersion on the prefix;
// s3:ListBucketVersions and s3:GetBucketVersioning on the bucket. To find out what would take
// versions away also s3:GetLifecycleConfiguration and s3:GetBucketObjectLockConfiguration:
// without them a store is not refused for it.
//
// # Concurrency
//
// A [Store] may be used by any number of goroutines, starts none that outlive a call,
// and needs no closing.
package s3verstore
