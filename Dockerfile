# Two stages: build with the compiler at hand, run without it. No weights inside: they come from a volume.
# GPU:  docker build -t orchestra .
# CPU:  docker build -t orchestra --build-arg RUNTIME=cpu .
ARG RUNTIME=cuda

FROM node:20-bookworm AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-fund --no-audit
COPY . .
RUN npm run build && npm prune --omit=dev

FROM nvidia/cuda:13.0.1-runtime-ubuntu24.04 AS base-cuda
COPY --from=node:20-bookworm-slim /usr/local/bin/node /usr/local/bin/node
RUN apt-get update && apt-get install -y --no-install-recommends libcublas-13-0 bubblewrap util-linux python3 python3-numpy python3-sympy python3-pip \
    && rm -rf /var/lib/apt/lists/*

FROM node:20-bookworm-slim AS base-cpu
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap util-linux python3 python3-numpy python3-sympy python3-pip \
    && rm -rf /var/lib/apt/lists/*

FROM base-${RUNTIME} AS run
ARG RUNTIME
WORKDIR /app
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/models ./models
COPY --from=build /app/docs ./docs
COPY --from=build /app/package.json /app/README.md ./
# Engines for other machines are dead weight here.
RUN cd node_modules/@node-llama-cpp \
    && rm -rf linux-arm64 linux-armv7l linux-x64-vulkan mac-* win-* \
    && if [ "$RUNTIME" = cpu ]; then rm -rf linux-x64-cuda linux-x64-cuda-ext; fi
RUN useradd --create-home --uid 10001 orchestra && mkdir -p /data && chown orchestra /data
USER orchestra
ENV HOST=0.0.0.0 PORT=8080 ORCHESTRA_HOME=/data ORCHESTRA_MODELS=/data/models
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=3s --start-period=90s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8080/healthz').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/main.js", "serve"]
