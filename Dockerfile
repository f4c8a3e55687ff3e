# The first stage builds. The second has Node, the built files and the production dependencies, nothing else. There is no native
# code in it, so it can be built for every platform of node:26-slim. Arguments: COMMIT and its DATE (2026-11-30), which the image says.
FROM node:26-slim AS build
WORKDIR /headgate
COPY package.json package-lock.json ./
# Without scripts, because the devDependency `node` would fetch a second Node.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN node node_modules/typescript/bin/tsc -p tsconfig.build.json --declaration false \
  && cp -R src/admin/console dist/admin/ \
  && cp src/finance-backend/sample.sql dist/finance-backend/ \
  && chmod +x dist/main.js \
  && npm sbom --omit=dev --sbom-format=cyclonedx --sbom-type=application >sbom.cdx.json \
  && npm prune --omit=dev --ignore-scripts \
  && rm node_modules/.package-lock.json
# For `headgate --version`.
ARG COMMIT
ARG DATE
RUN printf '%s' "${COMMIT:+$COMMIT, $DATE}" >dist/commit
COPY config ./config
COPY docs/runbooks.md ./docs/
# Makes the compiled code, which the gateway cannot write itself if its root is read-only. Node accepts it only for this path, this
# Node and this user, so gateway and reference backend run here for a moment. The scrape waits until it runs.
RUN mkdir -p node_modules/.cache/headgate && chown 1000:1000 node_modules/.cache/headgate
USER 1000:1000
RUN timeout --preserve-status --signal=TERM 60 node dist/main.js demo --port 0 --admin-port 19464 & \
  until node -e 'fetch("http://127.0.0.1:19464/metrics").then((answer) => answer.text())' 2>/dev/null; \
    do kill -0 $! && sleep 1 || exit 1; done; \
  kill $! && wait $!

FROM node:26-slim
LABEL org.opencontainers.image.title="headgate" \
  org.opencontainers.image.description="A rate-limiting reverse-proxy gateway for APIs that were never built to defend themselves." \
  org.opencontainers.image.version="1.0.0-rc.1" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.base.name="docker.io/library/node:26-slim"
ENV NODE_ENV=production
WORKDIR /headgate
COPY --from=build /headgate/node_modules ./node_modules
COPY --from=build /headgate/dist ./dist
# The list of its parts, for scanners (CycloneDX).
COPY --from=build /headgate/sbom.cdx.json ./
COPY package.json LICENSE ./
COPY config/headgate.yaml config/headgate.schema.json ./config/
# The console shows it.
COPY docs/runbooks.md ./docs/
COPY deploy/image/health-check ./
# For `docker exec gateway headgate status`.
RUN ln -s /headgate/dist/main.js /usr/local/bin/headgate
# The first is for the snapshot of the counters (counters.snapshot.path), if a volume is mounted here: a new volume gets its owner.
# The second is for the Unix socket of the admin API: as a volume it can be written to, also where the root cannot. Their group is 0,
# which is that of a process whose user the platform chooses (OpenShift).
RUN install -d -m 770 -o 1000 -g 0 /var/lib/headgate /run/headgate
ENV HEADGATE_ADMIN_SOCKET=/run/headgate/admin.sock
VOLUME /run/headgate
# Not the admin listener, which is on the container's loopback by default (HEADGATE_ADMIN_HOST).
EXPOSE 8080
# The user `node` of the base, as a number, because Kubernetes cannot tell from a name that it is not root.
USER 1000:1000
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["timeout", "2", "/headgate/health-check"]
ARG COMMIT
ARG DATE
LABEL org.opencontainers.image.revision="$COMMIT" \
  org.opencontainers.image.created="${DATE:+${DATE}T00:00:00Z}"
# Node is process 1, without a shell or npm before it, so it gets SIGTERM and drains.
ENTRYPOINT ["node", "/headgate/dist/main.js"]
CMD ["start"]
