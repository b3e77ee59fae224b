package command

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// inWords returns an error in the words of the command, for faults of which the library cannot say
// what the user has named.
func (a *app) inWords(err error) error {
	var (
		fenced *object.FencedError
		op     *store.OpError
		own    *output.Worded
	)
	switch {
	case errors.As(err, &own):
	case errors.As(err, &fenced):
		text := fmt.Sprintf("the object %q was not changed: it carries token %d of lock %q", fenced.Key, fenced.Fence.Token, fenced.Fence.Lock)
		hint := "a later holder has used the lock: stop, and start the job again"
		switch w := fenced.Write; {
		case w == nil:
			text, hint = text+", and you gave no token", fmt.Sprintf("give the token of your grant: --fence TOKEN --lock %s", output.Quote(fenced.Fence.Lock))
		case w.Lock != fenced.Fence.Lock:
			text, hint = fmt.Sprintf("%s, and you gave a token of lock %q", text, w.Lock), "take the lock that the object names, and give its token"
		default:
			text = fmt.Sprintf("%s, and you gave %d", text, w.Token)
		}
		return output.WithHints(text, err, []string{hint})
	case errors.Is(err, store.ErrCorrupt) && errors.As(err, &op) && usesLocks(a.Path):
		name, ofLock := strings.CutPrefix(op.Key, "lock/") // the default of lease.Options.KeyPrefix
		if !ofLock {
			break
		}
		what := strings.TrimPrefix(op.Err.Error(), store.ErrCorrupt.Error()+": ")
		return output.WithHints(fmt.Sprintf("the record of lock %q on %s is damaged: %s", name, cmp.Or(op.Store, a.Opened), what), err, []string{
			"other locks still work",
			fmt.Sprintf("if no holder of this lock lives: %s break %s --unreadable --now (break keeps a copy)", a.onStore(err), output.Quote(name)),
		})
	}
	return err
}

// usesLocks reports whether a command takes or shows a lock.
func usesLocks(path string) bool {
	return slices.Contains([]string{"run", "hold", "lock", "lead", "show"}, strings.TrimPrefix(path, "holdfast "))
}

// onStore is the beginning of a command line for the store of an error. It contains no secret: no URL has one.
func (a *app) onStore(err error) string {
	url := a.AgainAfter(err)
	if url == "" {
		return "holdfast"
	}
	return "holdfast --store " + output.Quote(url)
}

// needsInit reports whether a store lacks what holdfast init creates: the texts of the stores say so.
func needsInit(err error) bool {
	return errors.Is(err, store.ErrMisconfigured) &&
		regexp.MustCompile(`create the \S+( \S+)? with holdfast init|holdfast init creates it`).MatchString(err.Error())
}

// hints returns what the reader of an error can do.
func (a *app) hints(err error) []string {
	var own interface{ Hints() []string }
	if errors.As(err, &own) {
		return own.Hints()
	}
	on := a.onStore(err)
	switch status := exit.Status(err); {
	case errors.Is(err, checkpoint.ErrFenced):
		hints := []string{"a later holder has used the lock: stop, and start the job again"}
		if strings.Contains(err.Error(), "the call has no token") {
			hints[0] = "give the token of your grant with --fence"
		}
		if a.Path != "holdfast checkpoint advance" { // reset, rm and import
			hints = append(hints, "to change the checkpoint without a token: --force")
		}
		return hints
	case status == exit.Lost && errors.Is(err, lease.ErrLost):
		return []string{"check what the command has done, then start it again"}
	case status == exit.Unknown:
		return []string{"the store's reply was lost: before you try again, find out whether the write was applied"}
	case errors.Is(err, storeurl.ErrWrong):
		return []string{"the URLs of all stores, and their parameters: holdfast help stores"}
	case a.Path != "holdfast init" && needsInit(err):
		return []string{"to create what is missing: " + on + " init"}
	case status == exit.Unreachable && a.Opened != "":
		check := "check the server and the network"
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			check = "free some space"
		}
		if a.AgainAfter(err) == "" {
			return []string{check + ": " + output.StoreName(err)}
		}
		return []string{check + ", then: " + on + " doctor"}
	case status == exit.Denied && !strings.HasPrefix(a.Opened, "file:") && errors.Is(err, store.ErrDenied):
		return []string{"the rights that each store needs: holdfast help permissions"}
	case errors.Is(err, lease.ErrTokenMismatch):
		return []string{"the lock may have a new holder: " + on + " show NAME"}
	}
	return wayOut(err)
}

// wayOut says which parameters of the URL make up for a condition that a store lacks.
func wayOut(err error) []string {
	var cannot *object.UnsupportedError
	if !errors.As(err, &cannot) {
		return nil
	}
	switch cannot.Ability {
	case object.Fenced:
		return []string{"on s3:, see the parameters index and unique_bodies in holdfast help object-urls"}
	case object.PlainCopy, object.RemoveVersion, object.StorageClass, object.Tags:
		return nil
	}
	return []string{"on s3:, see the parameters reserve and index in holdfast help object-urls"}
}
