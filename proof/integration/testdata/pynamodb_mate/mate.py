"""Carries out calls of the published package, one line of JSON each, and answers each.

The environment names the servers and the table; see mate_test.go.
"""
import base64
import datetime
import json
import os
import sys

import boto3
import pynamodb_mate.api as pm
from pynamodb_mate.patterns.large_attribute.api import LargeAttributeMixin


class Item(pm.Model, LargeAttributeMixin):
    class Meta:
        table_name = os.environ["TABLE"]
        region = os.environ["AWS_REGION"]
        host = os.environ["AWS_ENDPOINT_URL_DYNAMODB"]

    pk = pm.UnicodeAttribute(hash_key=True)
    html = pm.UnicodeAttribute(null=True)
    image = pm.UnicodeAttribute(null=True)
    n = pm.NumberAttribute(null=True)


s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL_S3"], config=boto3.session.Config(s3={"addressing_style": "path"}))
place = dict(bucket=os.environ["BUCKET"], prefix=os.environ["PREFIX"])


def large(call):
    return {name: base64.b64decode(body) for name, body in call.get("large", {}).items()}


def run(call):
    common = dict(s3_client=s3, pk=call["pk"], sk=None)
    now = datetime.datetime.now(datetime.timezone.utc)
    if call["op"] == "create":
        attributes = {"n": call["n"]} if "n" in call else {}
        Item.create_large_attribute_item(kvs=large(call), update_at=now, attributes=attributes, **place, **common)
    elif call["op"] == "update":
        actions = [Item.n.set(call["n"])] if "n" in call else []
        Item.update_large_attribute_item(kvs=large(call), update_at=now, update_actions=actions, consistent_read=True, **place, **common)
    elif call["op"] == "delete":
        Item.delete_large_attribute_item(attributes=["html", "image"], **common)
    elif call["op"] == "get":
        item = Item.get(call["pk"], consistent_read=True)
        out = {"n": item.n and int(item.n), "large": {}}
        for name in ("html", "image"):
            uri = getattr(item, name)
            if uri is not None:
                bucket, key = uri.split("/", 3)[2:]
                body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
                out["large"][name] = base64.b64encode(body).decode()
        return out
    return {}


for line in sys.stdin:
    try:
        answer = run(json.loads(line))
    except Exception as e:
        answer = {"error": type(e).__name__ + ": " + str(e)[:300]}
    print(json.dumps(answer), flush=True)
