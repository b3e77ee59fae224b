package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/internal/awscall"
	"github.com/holdfast-go/holdfast/store"
)

// writing is one write on its way: what is sent, and what is known of it.
type writing struct {
	s      *Store
	key    string
	create bool // the register must not exist: absent or a tombstone
	base   item // the state that it is written against
	it     item // its nonce stays the same in all tries

	// lost is the error of the last try whose outcome is not known. It may still
	// be applied, as long as the base is there.
	lost error
}

// write puts it in the place of the state prev.
func (s *Store) write(ctx context.Context, key string, prev store.Version, it item) (store.Version, error) {
	base, err := parseVersion(prev)
	if err != nil {
		return "", err
	}
	if err := store.CheckContext(ctx); err != nil {
		return "", err
	}
	if err := s.Verify(ctx); err != nil {
		return "", err
	}
	w := &writing{s: s, key: key, create: prev == "", it: it}
	w.it.nonce = newNonce()
	w.against(base)
	for try := 1; ; try++ {
		v, err := w.send(ctx)
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, store.ErrConflict):
			return "", err // settled
		case errors.Is(err, errSendAgain): // against a tombstone
		case errors.Is(err, store.ErrUnavailable):
			if store.OutcomeOf(err) == store.Unknown {
				w.lost = err
			}
			if try < s.o.Tries && awscall.Pause(ctx, firstPause, try) {
				continue
			}
			return "", w.failed(err)
		default:
			return "", w.failed(err)
		}
		if try >= s.o.Tries {
			// Others create and delete it all the time.
			return "", w.failed(&store.ConflictError{Key: key})
		}
	}
}

func (w *writing) against(base item) {
	w.base = base
	w.it.follow(base)
}

// failed returns err as the error of the write. If an earlier try may have been
// applied it proves nothing, and must not look like a conflict.
func (w *writing) failed(err error) error {
	switch {
	case w.lost == nil:
		return err
	case errors.Is(err, w.lost):
		return store.MarkUnknown(err)
	}
	return store.MarkUnknown(fmt.Errorf("%w; then: %v", w.lost, err))
}

var errSendAgain = errors.New("to be sent again")

// send sends the write once.
func (w *writing) send(ctx context.Context) (store.Version, error) {
	in := &dynamodb.PutItemInput{
		TableName:                           &w.s.table,
		Item:                                w.s.encode(w.key, w.it),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ConditionExpression:                 aws.String("attribute_not_exists(#key)"),
		ExpressionAttributeNames:            map[string]string{"#key": attrKey},
	}
	if !w.base.absent() {
		in.ConditionExpression = aws.String("#version = :base")
		in.ExpressionAttributeNames = map[string]string{"#version": attrVersion}
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":base": str(w.base.id())}
	}
	err := w.s.call(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := w.s.client.PutItem(ctx, in, opt)
		return err
	})
	var refused *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return w.it.version(), nil
	case errors.As(err, &refused):
		return w.refused(ctx, refused.Item)
	}
	return "", err
}

// refused judges a write whose condition did not hold by the item that it met,
// which is nil if there was none, or if the server does not tell.
func (w *writing) refused(ctx context.Context, attrs map[string]types.AttributeValue) (store.Version, error) {
	var current item
	var err error
	if len(attrs) > 0 {
		current, err = decodeItem(attrs)
	} else {
		current, err = w.s.get(ctx, w.key)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", w.metAbsent()
	case errors.Is(err, store.ErrCorrupt):
		return "", store.MarkNotApplied(err)
	case err != nil:
		return "", store.MarkUnknown(fmt.Errorf("its condition was refused; reading back why: %w", err))
	case current.nonce == w.it.nonce:
		w.s.o.Log.Debug("a write whose reply was lost was applied", "key", w.key)
		return current.version(), nil
	case slices.Contains(current.after, w.it.nonce):
		w.s.o.Log.Debug("a write whose reply was lost was applied, and superseded", "key", w.key)
		return w.it.version(), nil
	}
	// Another's state. Nothing of ours can be applied any more; was it?
	if w.lost != nil && !w.proves(current) {
		return "", errors.New("others have changed it several times since")
	}
	if !current.deleted {
		return "", &store.ConflictError{Key: w.key, Known: true, Value: current.value, Version: current.version()}
	}
	if !w.create {
		return "", &store.ConflictError{Key: w.key, Known: true}
	}
	// Creating anew means to follow the tombstone.
	w.lost = nil
	w.against(current)
	return "", errSendAgain
}

func (w *writing) metAbsent() error {
	switch {
	case w.lost != nil:
		return errors.New("the item was removed since")
	case w.create && w.base.absent():
		return fmt.Errorf("%w: it refuses to create what it says is not there", store.ErrUnsafe)
	case w.create:
		w.against(item{}) // a tombstone that was removed
		return errSendAgain
	}
	return &store.ConflictError{Key: w.key, Known: true}
}

// proves reports whether the past that another's item names leaves no room for this
// write: it names what came after the base, or goes back to the beginning.
func (w *writing) proves(other item) bool {
	if !w.base.absent() && slices.Contains(other.after, w.base.nonce) {
		return true
	}
	return len(other.after) < maxAfter
}
