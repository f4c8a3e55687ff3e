# Two stages: the first builds, the second holds Node, the built files and the production dependencies, nothing else.
# No native code is in it, so it is built for any platform that node:26-slim is there for.
FROM node:26-slim AS build
WORKDIR /headgate
COPY package.json package-lock.json ./
# The `node` package among the devDependencies brings a second Node, which the image has already.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN node node_modules/typescript/bin/tsc -p tsconfig.build.json --declaration false \
  && npm sbom --omit=dev --sbom-format=cyclonedx --sbom-type=application >sbom.cdx.json \
  && npm prune --omit=dev --ignore-scripts \
  && rm node_modules/.package-lock.json
COPY config ./config
# Compiled code, for a root that cannot be written to. It counts only for this path, this Node and this user, so it is made
# here by a short life of gateway and reference backend.
RUN mkdir -p node_modules/.cache/headgate && chown 1000:1000 node_modules/.cache/headgate
USER 1000:1000
RUN timeout --preserve-status --signal=TERM 5 node dist/main.js demo --port 0 --admin-port 0

FROM node:26-slim
LABEL org.opencontainers.image.title="headgate" \
  org.opencontainers.image.description="A rate-limiting reverse-proxy gateway for APIs that were never built to defend themselves." \
  org.opencontainers.image.version="0.1.0" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.base.name="docker.io/library/node:26-slim"
ENV NODE_ENV=production
WORKDIR /headgate
COPY --from=build /headgate/node_modules ./node_modules
COPY --from=build /headgate/dist ./dist
# What is in it, for scanners (CycloneDX).
COPY --from=build /headgate/sbom.cdx.json ./
COPY package.json LICENSE ./
COPY config ./config
COPY deploy/image/health-check ./
# The admin listener stays on the container's loopback unless HEADGATE_ADMIN_HOST says otherwise.
EXPOSE 8080
# The base's user `node`, as a number: Kubernetes cannot tell that a name is not root's.
USER 1000:1000
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["timeout", "2", "/headgate/health-check"]
# No shell and no npm between the signal and the process: SIGTERM drains.
ENTRYPOINT ["node", "/headgate/dist/main.js"]
CMD ["start"]
