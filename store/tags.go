package store

import (
	"context"
	"iter"
)

// Tagged is a key with its tag: an opaque text that names one state of the register. It is
// not the [Version]. Compare a tag only with other tags of the same key, and only for
// equality.
type Tagged struct{ Key, Tag string }

// ListCost is the cost of a listing.
type ListCost struct {
	Gets int // one request of the listing costs as much as this number of Gets; at least 1
	Keys int // how many keys one request yields at most, at least 1
}

// TagLister is a store whose listing shows which of its registers have changed.
type TagLister interface {
	// ListTags yields the keys below prefix, as [Lister.List] does, each with its tag. The
	// tag of a key is its tag at one instant between the beginning of the listing and its
	// end. For two keys, these instants can differ. Every write gives its key a tag that
	// the key never had before. So if two listings show the same tag, the key was not
	// written between the end of the first and the beginning of the second.
	//
	// A deleted key is left out, or has another tag. A key of more than 250 bytes may be
	// left out. If the store cannot complete the listing, it yields an error.
	ListTags(ctx context.Context, prefix string) iter.Seq2[Tagged, error]

	// ListCost returns the cost of ListTags. It sends no request, and always returns the same
	// result.
	ListCost() ListCost
}

// OpListTags is the operation of [TagLister].
const OpListTags Kind = "list-tags"

type interceptedTagLister interceptedAbility[TagLister]

func (w interceptedTagLister) ListTags(ctx context.Context, prefix string) iter.Seq2[Tagged, error] {
	return listing(ctx, w.s, OpListTags, prefix, w.a.ListTags, func(op *Op) *iter.Seq2[Tagged, error] { return &op.Tags })
}

func (w interceptedTagLister) ListCost() ListCost { return w.a.ListCost() }
