// Package dashboard shows the locks of a store on a page for browsers, live. The page only reads: it
// has no button that changes a lock. It shows the command lines that do, for a person to copy.
//
//	page, err := dashboard.New(st, nil)
//	defer page.Close()
//	http.Handle("/locks/", http.StripPrefix("/locks", page))
//
// # Who may see the page
//
// The handler asks for no password. A program that mounts it decides who may see it. The command
// "holdfast serve" serves the page with a password, and listens on the loopback address by default.
//
// # What it costs
//
// One reader serves all open pages. It sends at most [Options].RequestsPerMinute requests to the
// store, whatever the number of pages and locks. While no page is open, and nothing calls
// [Page.Summary], it sends none. If the store
// is a [store.TagLister], a listing shows which locks have changed, and the reader reads only these.
// Otherwise it reads all locks in turn, and the locks that a page shows more often.
//
// # What it promises
//
// A state on the page was the state of the lock at the time that the page shows. A page can miss a
// state that lasts only a short time. The deadline of a lease is an estimate by the clocks of the
// holder and of this machine: do not decide by it whether the holder still works.
//
// Names, holders and reasons come from other programs. The page escapes them, makes control
// characters visible, and forbids scripts other than its own (Content-Security-Policy). It loads
// nothing from other hosts.
//
// # Goroutines
//
// New starts one goroutine, which ends with [Page.Close]. While it reads, it has up to eight more.
package dashboard
