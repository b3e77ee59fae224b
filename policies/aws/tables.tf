# The tables that "holdfast init" and "holdfast item init" make. Keep those that you need.

# dynamodb://locks
resource "aws_dynamodb_table" "locks" {
  name                        = "locks"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "part"
  range_key                   = "key"
  deletion_protection_enabled = true

  attribute {
    name = "part"
    type = "S"
  }
  attribute {
    name = "key"
    type = "S"
  }
}

# s3://BUCKET?reserve=dynamodb://reservations
resource "aws_dynamodb_table" "reservations" {
  name         = "reservations"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "path"
  range_key    = "etag"

  attribute {
    name = "path"
    type = "S"
  }
  attribute {
    name = "etag"
    type = "S"
  }
  ttl {
    attribute_name = "ttl"
    enabled        = true
  }
}

# holdfast item --table dynamodb://items; another key needs other names
resource "aws_dynamodb_table" "items" {
  name                        = "items"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  deletion_protection_enabled = true

  attribute {
    name = "pk"
    type = "S"
  }
}
