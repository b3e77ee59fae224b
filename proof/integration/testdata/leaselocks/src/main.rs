//! Takes leases in the table lease_locks of a media store of matrix-sdk-sqlite. It reads commands from standard input,
//! `try KEY HOLDER MILLISECONDS`, and answers each with one line: the generation, `held`, or `error TEXT`.

use std::io::{BufRead, Write};

use matrix_sdk_base::media::store::MediaStore;
use matrix_sdk_sqlite::SqliteMediaStore;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let dir = std::env::args().nth(1).expect("usage: leaselocks DIRECTORY");
    let store = match SqliteMediaStore::open(&dir, None).await {
        Ok(store) => store,
        Err(error) => {
            println!("error {error:?}");
            std::process::exit(1);
        }
    };
    println!("open");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input");
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["try", key, holder, ms] => match store.try_take_leased_lock(ms.parse().expect("milliseconds"), key, holder).await {
                Ok(Some(generation)) => generation.to_string(),
                Ok(None) => "held".to_owned(),
                Err(error) => format!("error {error:?}"),
            },
            _ => format!("error unknown command {line:?}"),
        };
        println!("{answer}");
        std::io::stdout().flush().expect("standard output");
    }
}
