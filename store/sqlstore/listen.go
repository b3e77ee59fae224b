package sqlstore

import (
	"context"
	"strings"
)

// Conn is a connection to PostgreSQL that receives notifications, for example a *pgx.Conn. R is
// the driver's result of a statement, and N is its notification.
type Conn[R, N any] interface {
	Exec(ctx context.Context, statement string, args ...any) (R, error)
	WaitForNotification(ctx context.Context) (N, error)
	Close(ctx context.Context) error
}

// Listener returns a function for [Options].Listen. While the returned function listens, it uses
// its own connection; the function passed as connect opens that connection. The function passed as
// payload returns the payload of a notification. With pgx:
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
