// Package redisstore stores registers in Redis.
//
//	s, err := redisstore.Open("redis://redis.example:6379/0/app", nil)
//
// Valkey has the same protocol. The tests use Redis 7 and not Valkey.
//
// # Keys
//
// A register with the key K, below the prefix P, is one string:
//
//	holdfast:P/K    the record of the register, as text; a tombstone has 256 bytes
//
// The keys have no time to live, so the server never removes a lock because of its age.
//
// # Requests
//
// A write is one script. It compares the beginning of the text, which contains the nonce of the state, with
// the state that the write names. Then it writes the text, or returns the text that it found. So a conflict
// costs one request, like a success. The store sends the hash of the script (EVALSHA). If the server does not
// know the script, it has written nothing, and the store sends the script itself (EVAL). A read is one
// GETRANGE, and a second request if the key does not exist. All requests go to the primary server.
//
// If the reply to a write is lost, the engine sends the script again. At most one of the two is applied. If
// the first one was applied, the refusal of the second shows its text. The store switches off the retries of
// the client, also those of the client of a cluster. By default, the client repeats a write after a lost
// reply, and reports a conflict with its own write.
//
// Only known error replies prove that nothing was written: the server and the script send them before the
// write. After any other error the outcome is unknown.
//
// A write publishes its key on the channel "holdfast:". All waiters of a store share one subscription. So each
// program that waits receives a message for every write of every store on the server.
//
// A listing scans all keys of the database (SCAN), and asks for the sizes of the keys below the prefix.
//
// # Promises
//
// With its default settings Redis loses acknowledged writes. Before its first write, a [Store] reads the
// settings of the server. It refuses settings that can lose a lock, unless the user accepts the [Risk] by
// name. It also refuses a replica. It cannot see later changes of the settings.
//
// Replication is asynchronous. If a replica becomes the primary server (Sentinel, a cluster, a managed
// service), it can lack the last acknowledged writes. Then a second program can get a lock that is held, and
// tokens can repeat. The setting min-replicas-to-write makes this less probable, but not impossible.
//
// # Clusters
//
// Each request has one key, so the keys need no hash tags. While a slot moves, the client follows the
// redirections, which prove that the server has done nothing. A listing during that time can miss keys.
//
// # Rights
//
// docs/stores.md lists the rights that a user needs with access control lists.
package redisstore
