// Package natsstore stores registers in a key-value bucket of NATS JetStream.
//
//	s, err := natsstore.Open(ctx, "nats://n1:4222,n2:4222,n3:4222/locks", nil)
//
// # The bucket
//
// A bucket B is the stream KV_B. [CreateBucket] and "holdfast init" create it. A register is one subject:
// $KV.B., the prefix and the key, with a dot instead of each slash. Letters, digits, "-" and "_" are as they
// are. Each other byte is "=" and two hexadecimal digits. The message is the record of the register, as
// text. Deleted registers remain as tombstones.
//
// # Requests
//
// A write publishes a message with the header Nats-Expected-Last-Subject-Sequence. The leader of the stream
// compares this number with the sequence of the last message of the subject. A sequence never returns in
// a stream. [CreateBucket] sets the first sequence to the time in microseconds. So a sequence does not return
// either if a bucket is deleted and created again. A read asks the leader of the stream, and never a replica: the store does not use direct reads,
// whether the bucket allows them or not.
//
// If the bucket has replicas, and another write of the same key is in progress, the server refuses a write
// with the error 10164. It wrote nothing, so the store sends the write again.
//
// A listing reads the names of all registers from the leader. Then it reads the headers of their messages with a
// consumer in the memory of the leader, until each of these registers has arrived.
//
// If the reply to a write is lost, the engine reads the register. [Open] makes a connection that keeps no
// message for the time after a reconnection. By default, a client of NATS keeps up to 8 MiB of messages, and
// a message could be applied long after its caller has given up.
//
// # Waiters
//
// The bucket repeats the headers of each stored message on the subject $HOLDFAST.B. and the key. A waiter
// subscribes to it, and then reads. A bucket that another program has created does not do that. Then a waiter
// reads every two seconds.
//
// # Promises
//
// By default, the server acknowledges a write before it is on disk: it syncs its files every two minutes. A
// killed server loses nothing. If all replicas lose their power, the last two minutes can be lost. With
// "sync_interval: always" in the configuration of each server, nothing is lost. A client cannot see this
// setting.
//
// A backup that is restored repeats sequences. Then a program that has read the register before can replace a
// newer state, and tokens can repeat. So stop all programs before, and start them again after the restore.
//
// A leader that is cut off from the other replicas can answer reads for some seconds, until it notices that.
// Such a read can show an earlier state. Writes are safe: they need a majority.
//
// # Rights
//
// A user needs the right to publish to these subjects, and to subscribe to _INBOX.> and $HOLDFAST.B.>:
//
//	$KV.B.>                          writes
//	$JS.API.STREAM.MSG.GET.KV_B      reads
//	$JS.API.STREAM.INFO.KV_B         the check before the first write, and listings
//	$JS.API.CONSUMER.*.KV_B.>        listings (also $JS.API.CONSUMER.MSG.NEXT.KV_B.>)
//	$JS.API.STREAM.PURGE.KV_B        the removal of test data
package natsstore
