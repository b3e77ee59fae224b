package sqltable_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/sqltable"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://db.example/app")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := sqltable.CreateTable(ctx, db, sqlstore.PostgreSQL, nil); err != nil { // once
		log.Fatal(err)
	}
	table, err := sqltable.New(db, sqlstore.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	key, err := largeitem.NewKey("invoice-7")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := table.Put(ctx, key, largeitem.Attributes{"total": largeitem.Number("19.90")}, nil); err != nil {
		log.Fatal(err)
	}
}

// A large attribute is written in two steps: it is uploaded, and the item refers to it
// together with what else the transaction does.
func ExampleTable_InTx() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://db.example/app")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	table, err := sqltable.New(db, sqlstore.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	items, err := largeitem.New(table, membucket.New(), nil) // or a bucket on S3
	if err != nil {
		log.Fatal(err)
	}
	key, err := largeitem.NewKey("invoice-7")
	if err != nil {
		log.Fatal(err)
	}

	prepared, err := items.Prepare(ctx, key, largeitem.Large{"pdf": largeitem.Bytes([]byte("%PDF ..."))}, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = pay(ctx, db, table, key, prepared)
	switch store.OutcomeOf(err) {
	case store.Applied:
		_, err = prepared.Commit(ctx)
	case store.NotApplied:
		_ = prepared.Abort(ctx)
	}
	// After an unknown outcome neither is called: the sweep removes what no item refers to.
	if err != nil {
		log.Fatal(err)
	}
}

// pay is the transaction.
func pay(ctx context.Context, db *sql.DB, table *sqltable.Table, key largeitem.Key, prepared *largeitem.PreparedWrite) error {
	ctx, cancel := context.WithDeadline(ctx, prepared.Deadline())
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = balance - 19.90 WHERE id = 7`); err != nil {
		return store.MarkNotApplied(err)
	}
	change, cond := prepared.Change(), prepared.Condition()
	change.Set["state"] = "paid"
	if _, err := table.InTx(tx).Update(ctx, key, change, &cond); err != nil {
		return store.MarkNotApplied(err) // it takes effect with the commit only
	}
	return tx.Commit() // the outcome of an error is unknown
}
