// Package dashboard shows the locks of a store on a page for browsers. The page only reads.
package dashboard

import "github.com/holdfast-go/holdfast/lease"

// Options are the options of the page. Nil means all defaults.
type Options struct {
	Locks *lease.Client
}
