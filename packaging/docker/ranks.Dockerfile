# Image for several ranks: the image of ascpipe, with Horovod and a server of ssh that user 1000 runs on port 2222.
#   docker build -t ascpipe . && docker build -t ascpipe-ranks -f packaging/docker/ranks.Dockerfile .
FROM ascpipe AS build
USER root
WORKDIR /src
RUN apt-get update && apt-get install --yes --no-install-recommends cmake
COPY scripts/ranks.sh scripts/
COPY requirements-ranks.lock ./
RUN ln -s /opt/ascpipe .venv && scripts/ranks.sh

FROM ascpipe
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends openssh-client openssh-server \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -m 0700 -o ascpipe -g ascpipe /home/ascpipe/.sshd
COPY --from=build /opt/ascpipe /opt/ascpipe
COPY packaging/docker/sshd_config /etc/ascpipe/sshd_config
COPY packaging/docker/ssh_config /etc/ssh/ssh_config.d/ascpipe.conf
USER ascpipe
RUN ssh-keygen -q -t ed25519 -N "" -f /home/ascpipe/.sshd/host_key
CMD ["/usr/sbin/sshd", "-De", "-f", "/etc/ascpipe/sshd_config"]
