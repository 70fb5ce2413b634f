# The image that a StreamsApp's pods run. With docker, from this tree:
#   docker build -f images/runtime.Dockerfile -t streamsapp-runtime .
# BASE is any Debian or Ubuntu with Python 3.11 or newer and its venv module.
ARG BASE=docker.io/library/python:3.11-slim

# The wheel, by the same build backend as everywhere, with a compiler and Python's headers, which stay behind. A change
# of the code begins at the COPY.
FROM ${BASE} AS wheel
RUN apt-get update -qq && export DEBIAN_FRONTEND=noninteractive \
 && apt-get install -y -qq --no-install-recommends gcc libc6-dev \
 && { python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null \
   || apt-get install -y -qq --no-install-recommends libpython3-dev; }
COPY images/build.lock /build/
RUN python3 -m venv /build/venv \
 && /build/venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r /build/build.lock
COPY pyproject.toml hatch_build.py README.md LICENSE /build/tree/
COPY crds /build/tree/crds
COPY charts /build/tree/charts
COPY runtime /build/tree/runtime
COPY operator /build/tree/operator
COPY spark /build/tree/spark
RUN /build/venv/bin/pip wheel --disable-pip-version-check --no-deps --no-build-isolation -w /build/dist /build/tree

# Exactly the locked packages. They are compiled here, because the file system of a pod is read-only.
FROM ${BASE}
COPY images/runtime.lock /opt/streamsapp/
RUN python3 -m venv /opt/streamsapp \
 && /opt/streamsapp/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes \
    -r /opt/streamsapp/runtime.lock

ENV PATH=/opt/streamsapp/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 USER=app HOME=/tmp
WORKDIR /tmp
ENTRYPOINT ["streamsapp"]
# The code last: what changes most.
COPY --from=wheel /build/dist /opt/streamsapp/dist
RUN /opt/streamsapp/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index /opt/streamsapp/dist/*.whl
USER 65532:65532
