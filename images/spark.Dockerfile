# The image of pods with engine: spark, and of bootstraps: the runtime with Spark and Java. With docker, from this tree:
#   docker build -f images/spark.Dockerfile -t streamsapp-spark .
# BASE is any Debian or Ubuntu with Python 3.11 or newer, its venv module, glibc, and a package of Java 17 or newer.
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

# Exactly the locked packages; of pyspark there is only the source, of which a package is made first. They are compiled
# here, because the file system of a pod is read-only.
FROM ${BASE} AS packages
COPY images/build.lock images/spark.lock /build/
RUN python3 -m venv /build/venv \
 && /build/venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r /build/build.lock \
 && /build/venv/bin/pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --require-hashes \
    -w /build/packages -r /build/spark.lock \
 && python3 -m venv /opt/streamsapp \
 && /opt/streamsapp/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index /build/packages/*.whl

FROM ${BASE} AS java
# Java as this Spark was made for it, 21 where the distribution has it. Its set-up wants a folder that small images lack.
RUN mkdir -p /usr/share/man/man1 && apt-get update -qq && export DEBIAN_FRONTEND=noninteractive \
 && { apt-get install -y -qq --no-install-recommends openjdk-21-jre-headless \
   || apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless; } \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
# Java asks the system for the user's name, and Spark does not start where it has none.
RUN echo 'app:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd
COPY --from=packages /opt/streamsapp /opt/streamsapp
ENV PATH=/opt/streamsapp/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 USER=app HOME=/tmp STREAMSAPP_CACHE=/opt/streamsapp/cache
WORKDIR /tmp

# Java's archive of the classes that drivers load: a start takes half of the CPU with it, and a pod could not keep one.
# Of the code only what a session is made with: other changes need no new archive.
FROM java AS classes
COPY runtime/streamsapp/__init__.py runtime/streamsapp/cache_folder.py runtime/streamsapp/clock.py \
     runtime/streamsapp/errors.py /build/streamsapp/
COPY runtime/streamsapp/web /build/streamsapp/web
COPY spark/streamsapp_spark/__init__.py /build/streamsapp_spark/
COPY spark/streamsapp_spark/session /build/streamsapp_spark/session
RUN PYTHONPATH=/build python3 -m streamsapp_spark.session.class_recording

FROM java
COPY --from=classes /opt/streamsapp/cache /opt/streamsapp/cache
ENTRYPOINT ["streamsapp"]
# The code last: what changes most.
COPY --from=wheel /build/dist /opt/streamsapp/dist
RUN /opt/streamsapp/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index /opt/streamsapp/dist/*.whl
USER 65532:65532
