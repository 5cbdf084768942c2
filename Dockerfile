# docker build -t holdfast . && docker run -p 6388:6388 -p 6389:6389 -v holdfast:/home/node/data holdfast
FROM node:24-slim AS build
WORKDIR /holdfast
COPY . .
RUN npm install && npm run pack

FROM node:24-slim
COPY --from=build /holdfast/pack/holdfast-0.1.0.tgz /tmp/
RUN npm install --global /tmp/holdfast-0.1.0.tgz
USER node
RUN mkdir /home/node/data
VOLUME /home/node/data
EXPOSE 6388 6389 10000
# Other containers that call it by its service name get 421 unless `--http-allowed-hosts NAME` (or a token) is added here.
CMD ["holdfast", "serve", "--host", "0.0.0.0", "--http-host", "0.0.0.0", "--data-dir", "/home/node/data"]
