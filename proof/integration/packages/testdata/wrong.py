import holdfast

with holdfast.lock("job", timeout=3) as guard:
    token: str = guard.token
