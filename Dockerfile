# An image with ascpipe and TensorFlow 1.15.5: docker build -t ascpipe .     (docs/how-to/install.md)
# The first stage compiles, with the pins of requirements.lock; the second one has what it made.
FROM python:3.7-bookworm AS build
WORKDIR /src
COPY requirements.lock ./
RUN python3.7 -m venv /opt/ascpipe \
 && awk '/^(pip|setuptools|wheel)==/,!/\\$/' requirements.lock > bootstrap.lock \
 && /opt/ascpipe/bin/pip install --no-cache-dir --require-hashes --no-deps -r bootstrap.lock \
 && /opt/ascpipe/bin/pip install --no-cache-dir --require-hashes --no-deps --no-build-isolation -r requirements.lock
COPY . .
RUN /opt/ascpipe/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . ./packaging/mx_rec \
 && /opt/ascpipe/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.7-bookworm
COPY --from=build /opt/ascpipe /opt/ascpipe
COPY --from=build /wheels /wheels
# Run directories and kernels are trusted where only their user can write: the folders are made as that user's own.
RUN useradd --create-home --uid 1000 ascpipe \
 && install -d -m 0700 -o ascpipe -g ascpipe /run/ascpipe /home/ascpipe/.cache /work
USER ascpipe
ENV PATH=/opt/ascpipe/bin:$PATH XDG_RUNTIME_DIR=/run/ascpipe
WORKDIR /work
# The daemon `default`, or the one of ASCPIPE_NAME. A program with a private daemon needs no such check.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["ascpipe", "status"]
CMD ["ascpipe", "start", "--foreground"]
