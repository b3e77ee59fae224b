package sqlstore

import (
	"context"
	"strings"
)

// Conn is a connection to PostgreSQL that receives notifications, as *pgx.Conn is. R is
// what the driver tells of a statement, and N is its notification.
type Conn[R, N any] interface {
	Exec(ctx context.Context, statement string, args ...any) (R, error)
	WaitForNotification(ctx context.Context) (N, error)
	Close(ctx context.Context) error
}

// Listener returns what [Options].Listen asks for. It uses a connection of its own for as
// long as it listens, which connect makes; payload takes the payload out of a
// notification. With pgx:
//
//	sqlstore.Listener(
//		func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) },
//		func(n *pgconn.Notification) string { return n.Payload },
//	)
func Listener[C Conn[R, N], R, N any](connect func(context.Context) (C, error), payload func(N) string) func(ctx context.Context, channel string, ready func(), notify func(payload string)) error {
	return func(ctx context.Context, channel string, ready func(), notify func(string)) error {
		conn, err := connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if _, err := conn.Exec(ctx, `LISTEN "`+strings.ReplaceAll(channel, `"`, `""`)+`"`); err != nil {
			return err
		}
		ready()
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return err
			}
			notify(payload(n))
		}
	}
}
