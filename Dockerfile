# docker build -t holdfast . && docker run -p 6388:6388 -p 6389:6389 -v holdfast:/data holdfast
FROM node:24-slim AS build
WORKDIR /holdfast
COPY . .
RUN npm install && npm run pack

FROM node:24-slim
COPY --from=build /holdfast/pack/holdfast-0.1.0.tgz /tmp/
RUN npm install --global /tmp/holdfast-0.1.0.tgz && install -d -o node /data
USER node
VOLUME /data
EXPOSE 6388 6389
CMD ["holdfast", "serve", "--host", "0.0.0.0", "--http-host", "0.0.0.0", "--data-dir", "/data"]
