// Package leaselocks tests package compat/leaselocks beside the crate matrix-sdk-sqlite, on one SQLite file.
package leaselocks
