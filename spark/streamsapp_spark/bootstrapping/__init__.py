"""``streamsapp bootstrap``: makes snapshots of history. It is not named as the public function: a package that is
imported would take the function's place."""
