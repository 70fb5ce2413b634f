module streamsapp.dev/cluster/pause

go 1.25
