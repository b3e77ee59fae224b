#!/bin/sh
# Gives an identity the rights for azblob://ACCOUNT/CONTAINER/PREFIX: locks, checkpoints, objects, init and doctor.
# The role is built into Azure. It is granted on the container only.
az role assignment create \
  --role "Storage Blob Data Contributor" \
  --assignee "PRINCIPAL" \
  --scope "/subscriptions/SUBSCRIPTION/resourceGroups/GROUP/providers/Microsoft.Storage/storageAccounts/ACCOUNT/blobServices/default/containers/CONTAINER"
