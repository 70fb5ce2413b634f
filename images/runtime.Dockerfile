# The image that a StreamsApp's pods run. With docker, from this tree:
#   docker build -f images/runtime.Dockerfile -t streamsapp-runtime .
# BASE is any image with Python 3.11 or newer, its venv module, and glibc; COMPILER is one with the same Python, its
# headers, and cc. Where that has no compiler the image has no native data path, and its pods say so.
ARG BASE=docker.io/library/python:3.11-slim
ARG COMPILER=docker.io/library/python:3.11

# The wheel, by the same build backend as everywhere. A change of the code begins at the COPY.
FROM ${BASE} AS wheel
COPY images/build.lock /build/
RUN python3 -m venv /build/venv \
 && /build/venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r /build/build.lock
COPY pyproject.toml README.md LICENSE /build/tree/
COPY crds /build/tree/crds
COPY charts /build/tree/charts
COPY runtime /build/tree/runtime
COPY operator /build/tree/operator
COPY spark /build/tree/spark
RUN /build/venv/bin/pip wheel --disable-pip-version-check --no-deps --no-build-isolation -w /build/dist /build/tree

# Exactly the locked packages. They are compiled here, because the file system of a pod is read-only.
FROM ${BASE} AS packages
COPY images/runtime.lock /opt/streamsapp/
RUN python3 -m venv /opt/streamsapp \
 && /opt/streamsapp/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes \
    -r /opt/streamsapp/runtime.lock

# The native data path. A pod has no compiler, and loads nothing from a folder that it may write to.
FROM ${COMPILER} AS native
COPY --from=packages /opt/streamsapp /opt/streamsapp
COPY runtime /build/runtime
RUN mkdir -p /build/cache/native \
 && if command -v cc; then STREAMSAPP_CACHE=/build/cache PYTHONPATH=/build/runtime /opt/streamsapp/bin/python -c \
    'from streamsapp.native.build import library; print(library())'; fi

FROM packages
ENV PATH=/opt/streamsapp/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 USER=app HOME=/tmp STREAMSAPP_CACHE=/opt/streamsapp/cache
WORKDIR /tmp
ENTRYPOINT ["streamsapp"]
# The code last: what changes most.
COPY --from=native /build/cache /opt/streamsapp/cache
COPY --from=wheel /build/dist /opt/streamsapp/dist
RUN /opt/streamsapp/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index /opt/streamsapp/dist/*.whl
USER 65532:65532
