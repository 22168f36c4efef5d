"""nx-27017, whose indexes cannot hold `_id` beside other fields: here they are made without it."""

from neosqlite.collection import Collection
from nx_27017.nx_27017 import main

create_index = Collection.create_index


def without_id(self, key, *args, **options):
    if isinstance(key, list) and len(key) > 1:
        key = [part for part in key if part[0] != "_id"]
    return create_index(self, key, *args, **options)


Collection.create_index = without_id
main()
