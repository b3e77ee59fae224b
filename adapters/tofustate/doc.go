// Package tofustate keeps the states of OpenTofu and Terraform, and their locks, in any store of Holdfast.
// It is the server of their backend "http". The command "holdfast serve tofu" runs it.
//
// # Use
//
// [New] returns a handler. The client needs three addresses:
//
//	terraform {
//	  backend "http" {
//	    address        = "http://127.0.0.1:7071/state/prod/network"
//	    lock_address   = "http://127.0.0.1:7071/state/prod/network"
//	    unlock_address = "http://127.0.0.1:7071/state/prod/network"
//	  }
//	}
//
// The handler checks no password and does not encrypt, and states contain secrets: put both in front of it.
// Web browsers must not send requests to it for other sites: see [http.CrossOriginProtection]. Do not let a proxy or an
// [http.ServeMux] redirect requests: after a redirect, a client can send a POST as a GET.
//
// # Addresses
//
// NAME is a text of at most [MaxName] bytes. It may contain slashes, but no empty segment, "." or "..".
//
//	GET    /state/NAME             the state
//	GET    /state/NAME?version=7   an earlier version
//	POST   /state/NAME?ID=LOCK     stores a state; PUT does the same
//	DELETE /state/NAME?ID=LOCK     deletes the state; its versions remain
//	LOCK   /state/NAME             takes the lock; UNLOCK frees it
//	GET    /history/NAME           the versions as JSON, oldest first
//	GET    /lock/NAME              the holder of the lock as JSON
//	POST   /lock/NAME              takes the lock; DELETE frees it
//
// The last line is for a proxy that does not pass LOCK and UNLOCK on: set lock_address and unlock_address to
// /lock/NAME, lock_method to POST, and unlock_method to DELETE. With these methods, /state/NAME refuses the
// description of a lock.
//
// # What is promised
//
//   - The lock is exclusive. It has no time limit: if a client dies, the lock remains until "force-unlock".
//   - While a lock is held, only requests with its ID change the state. A request with the ID of any other
//     lock changes nothing, and its status is 423 or 409.
//   - If no lock is held (-lock=false), a request without an ID changes the state. If the state has the same
//     lineage, the serial must be higher. So the later of two writers does not silently replace the state of
//     the earlier. "state push -force" to a smaller serial needs the lock.
//   - A client may repeat each request after a lost reply: the effect is that of one request. If a repeated
//     request arrives late, when its lock was released or a newer state was stored, it changes nothing.
//     A DELETE, and a state without lineage, have no such order: a late one can replace a newer state.
//     So a lock ID cannot be used again: LOCK refuses the last eight released IDs.
//   - A state that was stored with success remains readable until [Options].Keep newer versions were stored.
//   - Any number of handlers, on any number of machines, may serve one store. They keep nothing in memory.
//
// "force-unlock" of OpenTofu before 1.10 and of Terraform sends no ID: it frees the lock of any holder. If such a request
// arrives late, it frees a later lock. A late POST without a lock replaces a newer state if the state has no
// lineage, or another one. The history has the replaced state.
//
// # What the client gets
//
// If the store fails, the status is 503 or 500, and the client repeats the request. The outcome is then
// unknown, as in package store. OpenTofu shows only the status of most replies, so the handler logs the reason.
//
// # Records
//
// A state is a record, and parts of at most 64 KiB. The record has the lock and the list of the versions.
// Every change replaces the record by one compare-and-swap, and adds 1 to its generation.
//
//	tofu/state/NAME             the record, as JSON
//	tofu/part/HASH/SLOT/NUMBER  a part. HASH is the SHA-256 of NAME
//
// A slot has the parts of one version, compressed. A writer reads the record, fills a slot that no version
// uses, and then replaces the record, but only if the record still has the generation that the writer read.
// Each part begins with that generation. A writer replaces only parts of a smaller generation than its own.
// So a writer that was stopped and continues never damages a version: either a writer with the same or a higher
// generation has filled the slot, or the record has no version that uses the slot. A slot that a writer did not finish is
// used again by a later writer, so nothing has to be removed.
package tofustate
