package allstores

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/compat/reservation"
	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/store"
)

// The parameters of a bucket's URL that choose reservations:
//
//	reserve             the store in which reservations are made: dynamodb://TABLE, a
//	                    table as that of object_store, or the URL of any other store
//	reserve_timeout, reserve_clock_skew_rate, reserve_ttl, reserve_release
//	                    see [reserve.Options]. A command ends after its operation, and no
//	                    other program knows that the reservation is over: so it is released
//	                    unless the last one is false
//	conditional_put     as object_store has it: dynamo:TABLE, dynamo:TABLE:MS, etag,
//	                    etag-put-if-not-exists, or disabled
//	copy_if_not_exists  likewise: dynamo:TABLE, dynamo:TABLE:MS, multipart,
//	                    header:NAME:VALUE, or header-with-status:NAME:VALUE:STATUS
//	dynamo_endpoint     of the table that these two name; that of the bucket if not given,
//	                    as in object_store
//	dynamo_region       likewise
const (
	paramReserve        = "reserve"
	paramReserveTimeout = "reserve_timeout"
	paramReserveRate    = "reserve_clock_skew_rate"
	paramReserveTTL     = "reserve_ttl"
	paramReserveRelease = "reserve_release"
	paramConditionalPut = "conditional_put"
	paramCopyIfAbsent   = "copy_if_not_exists"
	paramDynamoEndpoint = "dynamo_endpoint"
	paramDynamoRegion   = "dynamo_region"
)

// ReservationParameters are all of them.
var ReservationParameters = []string{
	paramReserve, paramReserveTimeout, paramReserveRate, paramReserveTTL, paramReserveRelease, paramConditionalPut, paramCopyIfAbsent, paramDynamoEndpoint, paramDynamoRegion,
}

// reservations is the table of reservations that the URL of a bucket names.
type reservations struct {
	stores.Reservations
	table *reservationTable // nil: a store of another kind keeps them
}

// reservationTable is a table with the format of object_store.
type reservationTable struct {
	*reservation.Table
	client *dynamodb.Client
	name   string
	onAWS  bool       // its conditions need no test
	good   probeCache // remembers whether the server was tested
}

// reservations takes its parameters out of the URL of a bucket, and opens the table that
// they name. It returns nil if they name none. It first tests, once, a table on a server
// that is not Amazon's.
func (at *bucketURL) reservations(ctx context.Context, a *stores.Access) (*reservations, error) {
	r, err := at.untried(ctx, a)
	if err != nil || r == nil || r.table == nil {
		return r, err
	}
	return r, r.table.try(ctx)
}

// untried is the function [stores.Driver.Reservations].
func untried(ctx context.Context, a *stores.Access, u *stores.ObjectURL) (*stores.Reservations, error) {
	r, err := (&bucketURL{ObjectURL: u}).untried(ctx, a)
	if r == nil {
		return nil, err
	}
	return &r.Reservations, err
}

// untried does the same as reservations, but sends nothing to a table.
func (at *bucketURL) untried(ctx context.Context, a *stores.Access) (*reservations, error) {
	p, err := at.Parameters(ReservationParameters...)
	if err != nil {
		return nil, err
	}
	opts, tuned, err := at.reserveOptions(p)
	if err != nil {
		return nil, err
	}
	opts.Logger = a.Log()
	setting, err := at.settingOf(p)
	switch {
	case err != nil:
		return nil, err
	case p[paramReserve] != "" && setting != nil:
		return nil, exit.Usagef("the URL %s names two tables of reservations, by %s and by %s or %s: name one table", at, paramReserve, paramConditionalPut, paramCopyIfAbsent)
	case setting == nil && (p[paramDynamoEndpoint] != "" || p[paramDynamoRegion] != ""):
		return nil, exit.Usagef("the URL %s has %s or %s, but neither %s nor %s names a table: remove them; the table of %s gets its endpoint and region from its own URL", at, paramDynamoEndpoint, paramDynamoRegion, paramConditionalPut, paramCopyIfAbsent, paramReserve)
	case setting != nil:
		if setting.Timeout != 0 && opts.Timeout != 0 && setting.Timeout != opts.Timeout {
			return nil, exit.Usagef("the URL %s has two timeouts of reservations: remove %s", at, paramReserveTimeout)
		}
		opts.Timeout = cmp.Or(setting.Timeout, opts.Timeout)
		return reservationsIn(ctx, a, at.tableURL(setting.Table, p), opts)
	case p[paramReserve] == "" && tuned != "":
		return nil, exit.Usagef("%s needs a table of reservations: add reserve=dynamodb://TABLE", tuned)
	case p[paramReserve] == "":
		return nil, nil
	case strings.HasPrefix(strings.ToLower(p[paramReserve]), "dynamodb:"):
		return reservationsIn(ctx, a, p[paramReserve], opts)
	}
	st, err := openNamed(ctx, a, paramReserve, p[paramReserve])
	if err != nil {
		return nil, err
	}
	below, err := store.Prefix(st.Store, "bucket/"+at.Bucket.Host)
	var r *reserve.Reserver
	if err == nil {
		r, err = reserve.New(reserve.NewStoreTable(below), opts)
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &reservations{Reservations: stores.Reservations{Closer: st, Reserver: r, Name: st.URL}}, nil
}

// reserveOptions returns the options of reservations in a URL, and the name of one that it has;
// empty if it has none.
func (at *bucketURL) reserveOptions(p map[string]string) (opts *reserve.Options, tuned string, err error) {
	opts = &reserve.Options{ReleaseApplied: true}
	for _, o := range []struct {
		name, is string
		read     func(text string) error
	}{
		{paramReserveTimeout, "not a duration such as 20s", func(text string) (err error) { opts.Timeout, err = time.ParseDuration(text); return err }},
		{paramReserveTTL, "not a duration such as 1h", func(text string) (err error) { opts.TTL, err = time.ParseDuration(text); return err }},
		{paramReserveRate, "not a whole number", func(text string) (err error) { opts.MaxClockSkewRate, err = strconv.Atoi(text); return err }},
		{paramReserveRelease, "neither true nor false", func(text string) (err error) { opts.ReleaseApplied, err = strconv.ParseBool(text); return err }},
	} {
		if text := p[o.name]; text != "" {
			if tuned = o.name; o.read(text) != nil {
				return nil, "", exit.Usagef("the parameter %s of the URL %s is %s", o.name, at, o.is)
			}
		}
	}
	return opts, tuned, nil
}

// openNamed opens the store that a parameter of an object's URL names.
func openNamed(ctx context.Context, a *stores.Access, parameter, raw string) (stores.Opened, error) {
	if !strings.Contains(raw, ":") {
		return stores.Opened{}, exit.Usagef("the parameter %s of the URL must be the URL of a store, such as dynamodb://TABLE", parameter)
	}
	return a.OpenURL(ctx, raw)
}

// settingOf returns the table that the settings of object_store name. It returns nil if
// they name none. It gives a header for copies back to the URL of the bucket, which the
// bucket itself reads.
func (at *bucketURL) settingOf(p map[string]string) (*reservation.Config, error) {
	var found *reservation.Config
	for name, own := range map[string][]string{
		paramConditionalPut: {"etag", "etag-put-if-not-exists", "disabled"},
		paramCopyIfAbsent:   {"multipart", "header:NAME:VALUE", "header-with-status:NAME:VALUE:STATUS"},
	} {
		text := strings.TrimSpace(p[name])
		switch kind, _, _ := strings.Cut(text, ":"); {
		case name == paramCopyIfAbsent && strings.HasPrefix(kind, "header"):
			query := at.Bucket.Query()
			query.Set(name, text)
			at.Bucket.RawQuery = query.Encode()
			continue
		case text == "" || slices.Contains(own, text):
			at.noConditionalPut = at.noConditionalPut || text == "disabled"
			continue // conditions of the bucket itself, which are used anyway
		case kind != "dynamo":
			return nil, exit.Usagef("the parameter %s must be dynamo:TABLE, dynamo:TABLE:MILLISECONDS, %s", name, strings.Join(own, ", "))
		}
		s, err := reservation.ParseConfig(text)
		if err != nil {
			return nil, exit.Usagef("the parameter %s: %w", name, err)
		}
		if found != nil && *found != s {
			return nil, exit.Usagef("%s and %s name two tables or two timeouts: name the same table and timeout, or writers of the bucket do not exclude each other", paramConditionalPut, paramCopyIfAbsent)
		}
		found = &s
	}
	return found, nil
}

// tableURL returns the URL of a table that the settings of object_store name.
func (at *bucketURL) tableURL(table string, p map[string]string) string {
	query, of := url.Values{}, at.Bucket.Query()
	for _, name := range []string{"endpoint", "region", "profile", "anonymous"} {
		if v := of.Get(name); v != "" {
			query.Set(name, v)
		}
	}
	for name, own := range map[string]string{"endpoint": paramDynamoEndpoint, "region": paramDynamoRegion} {
		if v := p[own]; v != "" {
			query.Set(name, v)
		}
	}
	return (&url.URL{Scheme: "dynamodb", Host: table, RawQuery: query.Encode()}).String()
}

// reservationsIn opens a table with the format of object_store. It sends nothing.
func reservationsIn(ctx context.Context, a *stores.Access, raw string, opts *reserve.Options) (*reservations, error) {
	u, _, err := storeurl.Parse(raw)
	if err == nil && strings.Trim(u.Path, "/") != "" {
		return nil, exit.Usagef("a table of reservations cannot have a prefix: write reserve=dynamodb://TABLE")
	}
	client, name, _, err := dynamostore.FromURL(ctx, raw, nil)
	if err != nil {
		return nil, err
	}
	table, err := reservation.New(client, name, &reservation.Options{Logger: a.Log()})
	if err != nil {
		return nil, err
	}
	u.Path = "/reservations"
	r, err := reserve.New(table, opts)
	t := &reservationTable{table, client, name, client.Options().BaseEndpoint == nil, probeCacheFor(u)}
	return &reservations{stores.Reservations{Closer: io.NopCloser(nil), Reserver: r, Name: t.String()}, t}, err
}

func (t *reservationTable) String() string { return "dynamodb://" + t.name }

// try tests whether the server honours conditions, unless that is documented or already
// known.
func (t *reservationTable) try(ctx context.Context) error {
	if t.onAWS || t.good.is() {
		return nil
	}
	if err := t.Verify(ctx); err != nil {
		return err
	}
	t.good.note()
	return nil
}

// make makes the table if it does not exist, and says what it found and made.
func (t *reservationTable) make(ctx context.Context, a *stores.Access) (made bool, err error) {
	before, err := t.Describe(ctx)
	switch {
	case errors.Is(err, store.ErrMisconfigured): // the table does not exist
		made = true
	case err != nil:
		return false, err
	}
	if err := reservation.CreateTable(ctx, t.client, t.name, nil); err != nil {
		return false, err
	}
	const shape = "with the keys path and etag"
	switch {
	case made:
		a.Notef("created the table of reservations %s, %s; DynamoDB removes its rows by the attribute ttl", t, shape)
	case before.TTL == "":
		a.Notef("the table of reservations %s existed, %s; from now on DynamoDB removes its rows by the attribute ttl", t, shape)
	default:
		a.Notef("the table of reservations %s existed, %s, and DynamoDB removes its rows by the attribute ttl: init did not change the table", t, shape)
	}
	if len(before.Replicas) > 0 && !before.StronglyConsistent {
		a.Warnf("the table of reservations %s is also in %s, and has no common order of writes: writers in two regions do not exclude each other", t, strings.Join(before.Replicas, ", "))
	}
	return made, t.try(ctx)
}
