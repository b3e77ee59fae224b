// Package leaselocks tests package compat/leaselocks together with the crate matrix-sdk-sqlite, on one SQLite file.
package leaselocks
