# Two stages: the first builds, the second holds Node, the built files and the production dependencies, nothing else.
FROM node:26-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
# The `node` package among the devDependencies brings a second Node, which the image has already.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN node node_modules/typescript/bin/tsc -p tsconfig.build.json && npm prune --omit=dev --ignore-scripts

FROM node:26-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
COPY package.json LICENSE ./
COPY config ./config
# The admin listener stays on the container's loopback unless HEADGATE_ADMIN_HOST says otherwise.
EXPOSE 8080
USER node
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.HEADGATE_ADMIN_PORT || 9464}/livez`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# No shell and no npm between the signal and the process: SIGTERM drains.
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["start"]
