//! The other program of the reservation tests: object_store with its DynamoDB commits, as
//! published. It carries out one operation for each line of standard input, and answers
//! each with one line: the milliseconds that it took, a word, and what belongs to the word,
//! separated by tabs.
//!
//!     get KEY                  ok ETAG BODY | notfound
//!     create KEY BODY          ok ETAG | exists
//!     update KEY ETAG BODY     ok ETAG | precondition
//!     copy FROM TO             ok | exists | notfound
//!     rename FROM TO           ok | exists | notfound
//!
//! Everything else is `error TEXT`. Arguments: endpoint, bucket, and the settings
//! conditional_put and copy_if_not_exists.

use std::io::{BufRead, Write};
use std::time::Instant;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{Error, ObjectStore, PutMode, PutOptions, UpdateVersion};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let store = AmazonS3Builder::from_env()
        .with_endpoint(&args[1])
        .with_allow_http(true)
        .with_bucket_name(&args[2])
        .with_config(AmazonS3ConfigKey::ConditionalPut, &args[3])
        .with_config(AmazonS3ConfigKey::CopyIfNotExists, &args[4])
        .build()
        .expect("the settings of the store");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split('\t').collect();
        let start = Instant::now();
        let answer = match runtime.block_on(run(&store, &words)) {
            Ok(answer) => answer,
            Err(Error::AlreadyExists { .. }) => "exists".into(),
            Err(Error::Precondition { .. }) => "precondition".into(),
            Err(Error::NotFound { .. }) => "notfound".into(),
            Err(e) => format!("error\t{e:?}").replace('\n', " "),
        };
        writeln!(out, "{}\t{}", start.elapsed().as_millis(), answer).expect("an open standard output");
        out.flush().expect("an open standard output");
    }
}

async fn run(store: &AmazonS3, words: &[&str]) -> object_store::Result<String> {
    let put = |mode: PutMode| PutOptions { mode, ..Default::default() };
    Ok(match *words {
        ["get", key] => {
            let result = store.get(&Path::from(key)).await?;
            let etag = result.meta.e_tag.clone().unwrap_or_default();
            let body = result.bytes().await?;
            format!("ok\t{etag}\t{}", String::from_utf8_lossy(&body))
        }
        ["create", key, body] => {
            let result = store
                .put_opts(&Path::from(key), body.to_string().into(), put(PutMode::Create))
                .await?;
            format!("ok\t{}", result.e_tag.unwrap_or_default())
        }
        ["update", key, etag, body] => {
            let version = UpdateVersion { e_tag: Some(etag.to_string()), version: None };
            let result = store
                .put_opts(&Path::from(key), body.to_string().into(), put(PutMode::Update(version)))
                .await?;
            format!("ok\t{}", result.e_tag.unwrap_or_default())
        }
        ["copy", from, to] => {
            store.copy_if_not_exists(&Path::from(from), &Path::from(to)).await?;
            "ok".into()
        }
        ["rename", from, to] => {
            store.rename_if_not_exists(&Path::from(from), &Path::from(to)).await?;
            "ok".into()
        }
        _ => "error\tno such operation".into(),
    })
}
