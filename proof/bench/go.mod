module github.com/holdfast-go/holdfast/proof/bench

go 1.25.0

require (
	cirello.io/pglock v1.16.1
	github.com/Azure/azure-sdk-for-go/sdk/azcore v1.21.1
	github.com/Azure/azure-sdk-for-go/sdk/storage/azblob v1.7.0
	github.com/aws/aws-sdk-go-v2 v1.47.6
	github.com/aws/aws-sdk-go-v2/feature/s3/manager v1.20.18
	github.com/aws/aws-sdk-go-v2/service/dynamodb v1.73.0
	github.com/aws/aws-sdk-go-v2/service/s3 v1.114.7
	github.com/go-sql-driver/mysql v1.10.1
	github.com/go-zookeeper/zk v1.0.4
	github.com/gofrs/flock v0.13.1
	github.com/holdfast-go/holdfast v0.1.0
	github.com/holdfast-go/holdfast/azure v0.1.0
	github.com/holdfast-go/holdfast/object v0.1.0
	github.com/jackc/pgx/v5 v5.12.0
	go.etcd.io/etcd/client/v3 v3.6.14
	go.uber.org/zap v1.27.1
	golang.org/x/sys v0.47.0
	google.golang.org/grpc v1.82.1
	modernc.org/sqlite v1.53.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/Azure/azure-sdk-for-go/sdk/azidentity v1.13.1 // indirect
	github.com/Azure/azure-sdk-for-go/sdk/internal v1.12.0 // indirect
	github.com/AzureAD/microsoft-authentication-library-for-go v1.7.2 // indirect
	github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream v1.7.26 // indirect
	github.com/aws/aws-sdk-go-v2/config v1.33.14 // indirect
	github.com/aws/aws-sdk-go-v2/credentials v1.20.14 // indirect
	github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue v1.13.12 // indirect
	github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression v1.7.12 // indirect
	github.com/aws/aws-sdk-go-v2/feature/ec2/imds v1.20.6 // indirect
	github.com/aws/aws-sdk-go-v2/internal/configsources v1.5.9 // indirect
	github.com/aws/aws-sdk-go-v2/internal/endpoints/v2 v2.8.9 // indirect
	github.com/aws/aws-sdk-go-v2/internal/v4a v1.5.9 // indirect
	github.com/aws/aws-sdk-go-v2/service/dynamodbstreams v1.20.3 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/accept-encoding v1.13.24 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/checksum v1.11.10 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/endpoint-discovery v1.13.9 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/presigned-url v1.14.9 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/s3shared v1.20.9 // indirect
	github.com/aws/aws-sdk-go-v2/service/signin v1.12.2 // indirect
	github.com/aws/aws-sdk-go-v2/service/sso v1.39.2 // indirect
	github.com/aws/aws-sdk-go-v2/service/ssooidc v1.44.2 // indirect
	github.com/aws/aws-sdk-go-v2/service/sts v1.51.7 // indirect
	github.com/aws/smithy-go v1.28.8 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.5.0 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang-jwt/jwt/v5 v5.3.1 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.26.3 // indirect
	github.com/hablullah/go-hijri v1.0.2 // indirect
	github.com/hablullah/go-juliandays v1.0.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/holdfast-go/holdfast/internal/drivers v0.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/jalaali/go-jalaali v0.0.0-20210801064154-80525e88d958 // indirect
	github.com/klauspost/compress v1.18.5 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/lib/pq v1.10.9 // indirect
	github.com/lmittmann/tint v1.1.3 // indirect
	github.com/magefile/mage v1.14.0 // indirect
	github.com/markusmobius/go-dateparser v1.2.4 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/nats-io/nkeys v0.4.15 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/pierrec/lz4/v4 v4.1.23 // indirect
	github.com/pkg/browser v0.0.0-20240102092130-5ac0b6a4141c // indirect
	github.com/prometheus/client_golang v1.22.0 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.62.0 // indirect
	github.com/prometheus/procfs v0.19.2 // indirect
	github.com/psanford/sqlite3vfs v0.0.0-20260519004904-f9180fa2acc9 // indirect
	github.com/superfly/ltx v0.5.2 // indirect
	github.com/tetratelabs/wazero v1.2.1 // indirect
	github.com/wasilibs/go-re2 v1.3.0 // indirect
	go.etcd.io/etcd/api/v3 v3.6.14 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.6.14 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260630182238-925bb5da69e7 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260630182238-925bb5da69e7 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

require (
	cirello.io/dynamolock/v2 v2.1.0
	github.com/benbjohnson/litestream v0.5.16
	github.com/bsm/redislock v0.9.4
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-redsync/redsync/v4 v4.17.0
	github.com/google/uuid v1.6.0 // indirect
	github.com/holdfast-go/holdfast/aws v0.1.0
	github.com/holdfast-go/holdfast/etcd v0.1.0
	github.com/holdfast-go/holdfast/internal/aws v0.1.0 // indirect
	github.com/holdfast-go/holdfast/items v0.1.0
	github.com/holdfast-go/holdfast/items/dynamotable v0.1.0
	github.com/holdfast-go/holdfast/nats v0.1.0
	github.com/holdfast-go/holdfast/proof/integration v0.1.0
	github.com/holdfast-go/holdfast/redis v0.1.0
	github.com/holdfast-go/holdfast/store/sqlstore v0.1.0
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/nats-io/nats.go v1.53.1
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/redis/go-redis/v9 v9.22.0
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	modernc.org/libc v1.73.4 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
)

replace github.com/holdfast-go/holdfast => ../..

replace github.com/holdfast-go/holdfast/aws => ../../aws

replace github.com/holdfast-go/holdfast/azure => ../../azure

replace github.com/holdfast-go/holdfast/compat => ../../compat

replace github.com/holdfast-go/holdfast/compat/reservation => ../../compat/reservation

replace github.com/holdfast-go/holdfast/compat/s3verstore => ../../compat/s3verstore

replace github.com/holdfast-go/holdfast/examples => ../../examples

replace github.com/holdfast-go/holdfast/gcp => ../../gcp

replace github.com/holdfast-go/holdfast/internal/aws => ../../internal/aws

replace github.com/holdfast-go/holdfast/internal/drivers => ../../internal/drivers

replace github.com/holdfast-go/holdfast/kubernetes => ../../kubernetes

replace github.com/holdfast-go/holdfast/object => ../../object

replace github.com/holdfast-go/holdfast/proof/integration => ../integration

replace github.com/holdfast-go/holdfast/observe => ../../observe

replace github.com/holdfast-go/holdfast/redis => ../../redis

replace github.com/holdfast-go/holdfast/etcd => ../../etcd

replace github.com/holdfast-go/holdfast/nats => ../../nats

replace github.com/holdfast-go/holdfast/items => ../../items

replace github.com/holdfast-go/holdfast/items/dynamotable => ../../items/dynamotable

replace github.com/holdfast-go/holdfast/store/sqlstore => ../../store/sqlstore

replace github.com/holdfast-go/holdfast/lease/trylock => ../../lease/trylock

replace github.com/holdfast-go/holdfast/adapters/tofustate => ../../adapters/tofustate
